"""The first hour with one's own data: a file of utterances becomes a corpus, a label schema and a
starting space."""
