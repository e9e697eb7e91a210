"""Models. Each file is one architecture: `build(...)` returns a torch module."""
