"""Engines take the steps of training: plain SGD, eDP-SGD (Dupuy et al. 2021),
per-example DP-SGD.

Its kind is private (clips and adds noise), plain or prior (takes no step). An entry is
a file without torch, so that plans and charts read it at no cost:

    TASKS           the tasks that it trains
    LOOK            its label, colours and mark in charts
    PAPER_FIGURE    whether the paper's epsilon is of its noise schedule
    AUDITED         fields of the configs whose step `sweep audit` runs
    Config          its fields of `privacy`, with their defaults
    check()         refuses a mechanism that it cannot run
    make()          the engine itself, which takes steps; `_audit` measures what they release
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainables.dp.engines._audit import audit_step as audit_step
    from trainables.dp.engines._engine import Engine as Engine
    from trainables.dp.engines._engine import Loader as Loader
    from trainables.dp.engines._engine import Setup as Setup
    from trainables.dp.engines._gradient import GradientSource as GradientSource

ENTRIES = {
    "dp_sgd": "private",
    "edp_sgd": "private",
    "sgd": "plain",
    "untrained": "prior",
}
DEFAULT = "edp_sgd"
BASELINE = "sgd"  # without privacy, which the others are measured against
_HOMES = {
    "audit_step": "_audit",
    "Engine": "_engine",
    "Loader": "_engine",
    "Setup": "_engine",
    "GradientSource": "_gradient",
}


def __getattr__(name: str) -> Any:
    # Imported late, so that reading an entry does not load torch.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
