"""Epsilon of a mechanism. Each file is one accountant: `epsilon(mechanism, *, delta)`; none imports torch."""
