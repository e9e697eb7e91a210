"""Running sweeps: plan, budget, store, Ray, MLflow, and the command line on top.

From Python, `plan(space)` lists the trials of a space, `run(space)` runs a sweep, `resume(name)`
continues one, `load(name)` opens one and `compare(a, b)` compares two; all return the objects that
the commands use. `load_model(folder)` loads an exported model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweep.notebook import Sweep, compare, load, plan, resume, run
    from sweep.results.predict import load_model

__all__ = ["Sweep", "compare", "load", "load_model", "plan", "resume", "run"]


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))


def __getattr__(name: str) -> Any:
    # Imported late, so that `sweep --help` does not load the modules of a run.
    if name == "load_model":
        from sweep.results import predict

        return predict.load_model
    if name in __all__:
        from sweep import notebook

        return getattr(notebook, name)
    if name == "__version__":
        from sweep.commands._root import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
