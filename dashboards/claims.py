"""The largest true-positive rates that a privacy card's claim allows, beside those of attacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainables.attacks import attacks_on_models
from trainables.cards.card import PrivacyCard
from trainables.cards.page import percent

_RATES = (("0.1 %", "01pct"), ("1 %", "1pct"))


@dataclass(frozen=True, kw_only=True)
class ClaimRow:
    """The largest true-positive rate that a claim allows at a false-positive rate, and the largest
    that an attack reached; `measured` is None in the public view and where none was run.
    """

    fpr: str
    allowed: str
    measured: str | None
    attack: str | None


def claims(card: PrivacyCard, metrics: Mapping[str, float | None]) -> list[ClaimRow]:
    """The bounds of the claim, beside the results of the attacks in `metrics`."""
    found = []
    for words, name in _RATES:
        reached = {
            attack: value
            for attack in attacks_on_models()
            if (value := metrics.get(f"mia_{attack}_tpr_{name}")) is not None
        }
        best = max(reached, key=lambda attack: reached[attack], default=None)
        found.append(
            ClaimRow(
                fpr=words,
                allowed=percent(getattr(card, f"max_tpr_{name}")),
                measured=None if best is None else f"{100 * reached[best]:.2f} %",
                attack=best,
            )
        )
    return found
