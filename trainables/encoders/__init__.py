"""Encoders as files, and the features that heads read off them.

`folder` is an encoder on disk with its card, `statistics` the public mean and covariance of its
layers, `rows` turns layer states into features, `cache` keeps them for a corpus. `word_vectors`
and `pieces` turn tokens into what an encoder reads.
"""
