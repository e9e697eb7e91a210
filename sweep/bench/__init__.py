"""`sweep bench`: the cost of a step of each engine, compared in one run.

`contestants` makes a step of each, `stock` has the models of other libraries, `measure` times them
in turns, `children` measures memory and several workers in separate processes, `outcome` is the
result as data.
"""
