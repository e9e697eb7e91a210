"""Search: the choice of the next trials."""
