"""Mutants, sources with a small fault: tests must notice. `python -m tests.mutation
--help`.
"""
