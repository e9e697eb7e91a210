"""Encoders as files, and the features that heads read from them.

`folder` is an encoder on disk with its card, `moments` the public mean and covariance of its
layers, `rows` turns layer states into features, `cache` keeps them for a corpus. `word_vectors`
and `pieces` turn tokens into the inputs of an encoder.
"""
