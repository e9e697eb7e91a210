"""Running sweeps: plan, budget, store, Ray, MLflow, and the command line on top.

From Python, `plan(space)` says what a sweep would run and guarantee, `run(space)` runs
it, `extend(name)` adds points to it, `results(name)` has its trials as a pandas frame and
`load_model(folder)` loads an exported model.
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweep.from_python import extend, plan, run
    from sweep.results.frame import results
    from sweep.results.predict import load_model

__all__ = ["extend", "load_model", "plan", "results", "run"]
_PLACES = {
    "extend": "sweep.from_python:extend",
    "load_model": "sweep.results.predict:load_model",
    "plan": "sweep.from_python:plan",
    "results": "sweep.results",
    "run": "sweep.from_python:run",
}


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))


def __getattr__(name: str) -> Any:
    # Imported late, so that `sweep --help` does not load the modules of a run.
    if name in _PLACES:
        return pkgutil.resolve_name(_PLACES[name])
    if name == "__version__":
        from sweep.commands._root import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
