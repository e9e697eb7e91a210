"""Every combination of the values of the axes."""
