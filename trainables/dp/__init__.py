"""The trusted base: all that an epsilon rests on, small enough to be read in an
afternoon.

It imports torch, NumPy, SciPy, dp_accounting, cryptography and of this project
`figures` and `errors` alone, and has at most 1,950 lines of code
(`tests/test_guarantee_base.py`). The reading order is in docs/guides/guarantee.md. What
lies outside makes it fast or convenient, and is checked by it.
"""
