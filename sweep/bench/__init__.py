"""`sweep bench`: what a step of each engine costs, side by side in one run.

`contestants` makes one step of each, `stock` holds what is not this project's own, `measure` takes
turns, `children` measures memory, and several workers, in processes of their own, `outcome` is the
result as data.
"""
