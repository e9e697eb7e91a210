"""Learning-rate schedules. Each file has `factor(done)`: the factor on the learning
rate after the share `done`, in [0, 1), of the trial's steps.
"""

ENTRIES = ("constant", "cosine", "linear")
