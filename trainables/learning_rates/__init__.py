"""Courses of the learning rate. Each file has `factor(done)`: the factor on the learning rate
where the share `done` of the trial's steps, in [0, 1), has been taken."""
