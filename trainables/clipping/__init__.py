"""Rules that bring the gradient of a unit (a record, or a micro-batch) to norm C at most.

Each file has `BY_LAYER` (whether each layer's gradient is scaled by itself; G layers to C / sqrt(G)
each, so that the whole has norm at most C) and `factor(norms, bound)`: the factors for gradients
of these norms, with norms * factor(norms, bound) <= bound for every norm. One unit adds norm at
most C to the sum with every entry, so the sensitivity of a step is that of `privacy.mechanism`.
"""
