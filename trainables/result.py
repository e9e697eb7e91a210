"""What a trial yields: frozen data, and which of its figures only the curator may see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# Computed from private records without noise: no epsilon covers them (docs/privacy.md). They are
# marked wherever they are shown and left out of exports. Prefixes end in "*".
CURATOR_ONLY = (
    "train_loss",
    "clip_fraction",
    "gradient_norm",
    "nonfinite_gradients",
    "mia_*",
    "delta_mia_*",
    "roc_*",
    "epsilon_lower_bound*",
    "epsilon_estimate*",
    "signals",
    "split_ids",
    "duplicates_dropped",
)


def is_curator_only(name: str) -> bool:
    """Whether a metric or artifact is for the person who may see the private data, only.

    >>> is_curator_only("mia_shadow_auc"), is_curator_only("ser")
    (True, False)
    """
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in CURATOR_ONLY
    )


@dataclass(frozen=True, kw_only=True)
class EpochReport:
    """One finished epoch. `epochs_done` counts from 1; `seconds` is wall-clock of this epoch.

    `metrics` has plain floats: validation_ser, validation_intent_accuracy, train_loss,
    clip_fraction, epsilon (spent so far), epsilon_paper, noise_multiplier, ...
    """

    epochs_done: int
    seconds: float
    metrics: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """What is kept of a finished (or stopped) trial: numbers, and reasons where one is missing."""

    trial_id: str
    epochs_done: int
    stopped_early: bool
    metrics: dict[str, float | None]
    privacy: dict[str, Any]  # the privacy card's data
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
