"""What every corpus becomes: records, label schemas, memory-mapped corpora, splits and batches.

The readers of the corpora themselves are the shelf `trainables.datasets`.
"""
