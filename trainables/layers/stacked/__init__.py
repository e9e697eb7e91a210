"""The layers for K models of one architecture at once: each forwards the rows of all members.

A stacked layer holds the K layers it stands for and no parameter of its own. What does not involve
weights (norms of units, dropout, attention, the loss) works on all rows together, as it is; only
products with weights, and where a gradient is added, know the members. It needs an active tape.
"""
