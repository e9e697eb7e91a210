"""The loop of one sweep: events, executors (Ray gang, local), workers, journal."""
