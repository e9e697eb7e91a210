"""Optimisers, which apply a released gradient; as post-processing they cost no epsilon.

Each file has `make(layout, *, learning_rate) -> Optimizer` (see `_optimizer`) over the
flat vector of a model's trainable parameters.
"""

# The kind of each: for gradients of a sample or with noise, or for exact ones alone.
ENTRIES = {"adam": "stochastic", "lbfgs": "exact", "momentum": "stochastic"}
