"""What touches the machine: checkpoints on disk, locks, processes, memory, compiled code."""
