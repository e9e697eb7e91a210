"""Commands for generated text."""
