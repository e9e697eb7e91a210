"""Encoders as files, and the features that heads read from them.

`hub` and `about` find and describe an encoder, `source` has its weights, `rows` turns
layer states into features, `cache` keeps them for a corpus. `word_vectors` and `pieces`
turn tokens into inputs.
"""
