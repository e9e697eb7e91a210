"""Ray: its start and end, gangs of Ray Train workers, Tune trials, metrics."""
