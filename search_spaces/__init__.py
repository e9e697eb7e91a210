"""Which trials: search spaces as YAML files that a user copies and edits, and what reads them."""
