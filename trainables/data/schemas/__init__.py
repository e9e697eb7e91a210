"""Label schemas that ship: JSON, one a public corpus."""
