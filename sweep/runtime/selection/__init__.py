"""Private selections: trials in a vault, of which the best alone leaves."""
