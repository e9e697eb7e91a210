"""Records, label schemas, memory-mapped corpora, splits and batches of every corpus.

The readers of the corpora themselves are the registry `trainables.data.datasets`.
"""
