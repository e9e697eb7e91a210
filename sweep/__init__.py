"""Running sweeps: plan, budget, store, Ray, MLflow, and the command line on top.

From Python, `plan(space)` says what would run, `run(space)` runs a sweep, `resume(name)` goes on
with one, `load(name)` opens one that has run and `compare(a, b)` sets two side by side; all give
the objects that the commands work with. `load_model(folder)` is an exported model, ready to be
called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweep.notebook import Sweep, compare, load, plan, resume, run
    from sweep.results.predict import load_model

__all__ = ["Sweep", "compare", "load", "load_model", "plan", "resume", "run"]


def __getattr__(name: str) -> Any:
    # Late, so that `sweep --help` does not wait for what only a run needs.
    if name == "load_model":
        from sweep.results import predict

        return predict.load_model
    if name in __all__:
        from sweep import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
