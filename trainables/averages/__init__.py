"""Averages of the iterates, which are validated, kept and released instead of the last weights.

Averages smooth the noise of the steps. As post-processing they cost no epsilon. Each file has
`weight(step, steps=)`: the weight of the newest iterate in the running average after `step` of
`steps` steps; 1 restarts the average.
"""
