"""Readers of corpora. Each file is one corpus: `read(path, ...)` yields utterances, `schema(...)` its labels."""
