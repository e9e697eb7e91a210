"""Language models and their tokenizers, behind the entries of `trainables.models`."""
