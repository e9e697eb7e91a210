"""What a model is measured by. Pure functions on plain values."""
