"""Models of user code: import, checks and training."""
