"""Models of a user's own code: how it is found, what it must keep to, how it is trained."""
