"""How a step is taken: plain SGD, eDP-SGD (Dupuy et al. 2021), per-example DP-SGD.

An entry has `make(model, mechanism, setup) -> Engine`. The engine takes steps; its `mechanism()`
says what they release, `audit_step(mechanism)` whether that is so.
"""

from trainables.engines._audit import audit_step
from trainables.engines._engine import Engine, Loader, Setup, StepStats
from trainables.engines._gradient import GradientSource

__all__ = [
    "Engine",
    "GradientSource",
    "Loader",
    "Setup",
    "StepStats",
    "audit_step",
]
