"""Averages of the iterates: what is validated, kept and released in the place of the last weights.

Averages smooth the noise of the steps, and are post-processing, so free of epsilon. Each file has
`weight(step, steps=)`: the weight of the newest iterate in the running average once `step` of
`steps` steps have been taken; with 1 the average begins anew there.
"""
