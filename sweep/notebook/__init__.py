"""Sweeps from Python: `plan`, `run`, `resume`, `load` and `compare`, pandas frames out.

Each does what the command of that name does, with the same objects, and refuses the same.
"""

from sweep.notebook.commands import compare, load, plan, resume, run
from sweep.notebook.frames import Planned, Sweep

__all__ = ["Planned", "Sweep", "compare", "load", "plan", "resume", "run"]
