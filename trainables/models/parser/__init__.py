"""The parser from utterances to programs."""
