"""Private selections: trials in a vault, of which only the best is released."""
