"""The mechanism and its randomness: what a step releases, and how much noise lies over it.

`mechanism` is pure (no torch): the training step and the accountants both read it. `clipping`,
`scaling`, `noise`, `sampling` hold the tensors; import them by name.
"""
