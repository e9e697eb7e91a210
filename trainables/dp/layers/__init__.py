"""The parts models are built from, token-packed and able to yield per-example norms."""
