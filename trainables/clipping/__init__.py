"""How the gradient of a unit (a record, or a micro-batch) is brought to norm C at most.

Each file has `BY_LAYER` (whether each layer's gradient is scaled by itself; G layers to C / sqrt(G)
each, so that all together keep to C) and `factor(norms, bound)`: what gradients of these norms are
multiplied by, with norms * factor(norms, bound) <= bound for every norm. The sensitivity of a step
is that of `privacy.mechanism` with every entry: what one unit adds to the sum has norm at most C.
"""
