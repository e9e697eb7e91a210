"""What is trained and what is measured.

An entry with `KIND = "trial"` is what a config names as its `task`: `run` trains and measures one
trial, `probe` measures the cost of its pieces, and `DATASETS`, `MODELS` and `GENERATION` state the
`KIND` of the entries that it uses.
"""
