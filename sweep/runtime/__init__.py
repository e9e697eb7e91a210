"""The loop of one sweep: events, executors (Ray worker group, local), workers,
journal.
"""
