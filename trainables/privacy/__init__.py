"""The mechanism and its randomness: the release of a step and its noise.

`mechanism` is pure (no torch): the training step and the accountants both read it. `clipping`,
`scaling`, `noise`, `sampling` hold the tensors; import them by name.
"""
