"""Every combination of the values of the axes."""

KIND = "listed"
DEFAULT = True
