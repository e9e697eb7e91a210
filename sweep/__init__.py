"""Running sweeps: plan, budget, store, Ray, MLflow, and the command line on top.

From Python, `run(space)` runs a sweep and `load(name)` opens one that has run; both give the object
that the commands work with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweep.notebook import Sweep, load, run

__all__ = ["Sweep", "load", "run"]


def __getattr__(name: str) -> Any:
    # Late, so that `sweep --help` does not wait for what only a run needs.
    if name in __all__:
        from sweep import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
