"""What an adversary has beside the target's own signals, and which split allows which attack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainables import catalogue
from trainables.attacks._signals import Signals
from trainables.config import SPLITS_WITH_COINS, SplitMode
from trainables.errors import InvalidInput

if TYPE_CHECKING:  # a config that names attacks imports this, and SciPy's half a second for nothing
    from scipy import sparse

# A fixed split gives every trial the same members, so other trials say nothing about a record that
# is in all of them or in none; and without a coin for each record there is nothing to certify.
_WANTS_COINS = frozenset({"references", "coins"})


def allowed(mode: SplitMode) -> frozenset[str]:
    """Names of the attacks that mean something under a split: what an attack `NEEDS` decides."""
    return frozenset(
        name
        for name in catalogue.names("attacks")
        if mode in SPLITS_WITH_COINS or not catalogue.entry("attacks", name).NEEDS & _WANTS_COINS
    )


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """What the attacks may use; each says in `NEEDS` which of it it cannot do without.

    `references`: signals of other trials of the sweep, each with its own mask, over the same
    records. `shadow`: signals of a model of the same architecture on another, public corpus.
    `texts`: what a person without the model sees of the target's records, [n, d], row by row
    (`blind.bag_of_words`).
    """

    references: Sequence[Signals] = ()
    shadow: Signals | None = None
    texts: sparse.csr_matrix | None = None

    @property
    def parts(self) -> frozenset[str]:
        """Names of what is there."""
        present = {
            "references": len(self.references) > 0,
            "shadow": self.shadow is not None,
            "texts": self.texts is not None,
        }
        return frozenset(name for name, here in present.items() if here)


def refuse_unless_allowed(attack: str, mode: SplitMode) -> None:
    """Raises: InvalidInput naming attack, split and the splits that allow it."""
    if attack not in catalogue.names("attacks"):
        known = ", ".join(catalogue.names("attacks"))
        raise InvalidInput(f"expected attacks from {known}, got {attack!r}")
    if attack not in allowed(mode):
        raise InvalidInput(
            f"expected data.split {' or '.join(SPLITS_WITH_COINS)} for the attack {attack},"
            f" got data.split={mode}"
            " (all its trials have the same members)"
        )


def require(attack: str, needs: frozenset[str], knowledge: Knowledge) -> None:
    """Raises: InvalidInput naming what the attack lacks."""
    missing = needs - knowledge.parts
    if missing:
        raise InvalidInput(
            f"expected {', '.join(sorted(missing))} for the attack {attack}, got none"
        )


def same_records(target: Signals, other: Signals) -> Signals:
    """`other` restricted to the target's records.

    Raises: InvalidInput where it lies on another corpus or lacks any of them.
    """
    if other.corpus != target.corpus:
        raise InvalidInput(
            "expected reference signals on the target's corpus"
            f" {target.corpus[:12]!r}, got {other.corpus[:12]!r}"
        )
    if np.array_equal(other.records, target.records):
        return other
    place = np.searchsorted(other.records, target.records)
    place = np.minimum(place, max(0, len(other) - 1))
    lacking = int((other.records[place] != target.records).sum()) if len(other) else len(target)
    if lacking:
        raise InvalidInput(
            f"expected reference signals on all {len(target)} records of the target, {lacking} lack"
        )
    return other.take(place)
