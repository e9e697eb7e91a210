"""Tasks: training and evaluation of trials.

An entry with `KIND = "trial"` is a `task` of configs: `run` trains and measures one trial, `probe`
measures the cost of its pieces, and `DATASETS`, `MODELS` and `GENERATION` state the `KIND` of the
entries that it uses.
"""
