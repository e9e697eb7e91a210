"""Optimisers, which apply a released gradient; as post-processing they cost no epsilon.

Each file has `make(layout, *, learning_rate) -> Optimizer` (see `_optimizer`) over the
flat vector of a model's trainable parameters.
"""

ENTRIES = ("adam", "momentum")
