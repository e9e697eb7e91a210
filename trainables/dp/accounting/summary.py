"""The figures of a mechanism's accounting, and the reasons where epsilon is
infinite.
"""

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from trainables.dp.mechanism import NeighboringRelation
from trainables.figures import (
    EPSILON,
    EPSILON_PAPER,
    EPSILON_REPLACE_ONE,
    RISKS,
    public,
    public_count,
)

# `sweep plan` knows them before anything is trained.
_epsilon = partial(public, better="lower", written="epsilon")
FIGURES = (
    *(
        _epsilon(
            name=name, label=label, objective=name == EPSILON, is_listed=name == EPSILON
        )
        for name, label in (
            (EPSILON, "epsilon"),
            (EPSILON_PAPER, "epsilon of the paper's formula, no guarantee"),
            ("epsilon_rdp", "epsilon by Rényi accounting"),
            (EPSILON_REPLACE_ONE, "epsilon for one record replaced"),
            ("epsilon_planned", "epsilon of all planned epochs"),
        )
    ),
    *(
        _epsilon(name=f"{name}_spent", label=f"{label} spent so far", per_epoch=True)
        for name, label in (
            (EPSILON, "epsilon"),
            (EPSILON_PAPER, "epsilon of the paper"),
        )
    ),
    public(name="delta", label="delta"),
    *(
        public(
            name=name, label=f"largest {what} that the guarantee allows", better="lower"
        )
        for name, what in zip(
            RISKS,
            ("TPR at 1 % FPR", "TPR at 0.1 % FPR", "difference of TPR and FPR"),
            strict=True,
        )
    ),
    public(name="noise_multiplier", label="noise multiplier", per_epoch=True),
    public_count(name="steps", label="noisy steps"),
)


@dataclass(frozen=True, kw_only=True)
class PrivacySummary:
    """Every figure of one mechanism at one delta.

    `epsilon` holds for the code that ran under `neighboring_relation`, or is `math.inf`
    with the reasons in `unaccounted`. `accountant` names its source; `tight` is True
    for that accountant's exact figure and False for an upper bound, used where the
    exact one is expensive. `own_bounds` names the figures that our own upper bound
    gives, because `dp_accounting` has none. `epsilon_paper` is the figure of Dupuy et
    al. 2021 (no guarantee; None outside eDP-SGD). `epsilon_replace_one` bounds the loss
    when a record is replaced; None where it was not computed.
    `effective_noise_multiplier` has one value an epoch. `warnings` are sentences to
    show loudly. Of `privacy.claim`: `gaussian_mu` is that of the nearest Gaussian
    mechanism, `max_tpr_1pct` and `max_tpr_01pct` are the largest true-positive rates of
    a membership test at 1 % and 0.1 % false positives, and `max_advantage` is the
    largest difference of both rates.
    """

    epsilon: float
    delta: float
    accountant: str
    tight: bool
    epsilon_paper: float | None
    epsilon_rdp: float
    epsilon_replace_one: float | None
    noise_multiplier: float
    effective_noise_multiplier: tuple[float, ...]
    neighboring_relation: NeighboringRelation
    gaussian_mu: float
    max_tpr_1pct: float
    max_tpr_01pct: float
    max_advantage: float
    unaccounted: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    own_bounds: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: infinity is the string "inf", tuples are lists."""
        found: dict[str, Any] = plain(asdict(self))
        return found


def plain(value: Any) -> Any:
    """A value in a form that JSON supports: an infinity is the string "inf" or "-inf",
    a NaN None, a tuple a list, and so in every part of lists and mappings. Readers of
    cards and of the ledger turn "inf" back into a number; everything else passes
    unchanged.

    >>> plain((1.0, math.inf, {"loss": math.nan}))
    [1.0, 'inf', {'loss': None}]
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
