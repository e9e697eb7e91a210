"""Tables of results, fitted to the width of their output."""
