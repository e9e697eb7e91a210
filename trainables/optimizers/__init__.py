"""Optimisers: what a released gradient does to the weights; post-processing, so free of epsilon.

Each file has `make(layout, *, learning_rate) -> Optimizer` (see `_optimizer`) over the flat vector
of a model's trainable parameters.
"""
