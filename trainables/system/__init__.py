"""Interfaces to the machine: checkpoints on disk, locks, processes, memory, compiled
code.
"""
