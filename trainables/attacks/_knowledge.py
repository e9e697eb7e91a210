"""The adversary's knowledge beyond the target's signals, and the attacks that a split
allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainables import catalogue
from trainables.attacks._signals import Signals
from trainables.config.sections import RANDOM_SPLITS, SplitMode
from trainables.errors import InvalidInput

if (
    TYPE_CHECKING
):  # a config that names attacks imports this, and SciPy's half a second for nothing
    from scipy import sparse

# A fixed split gives every trial the same members, so other trials carry no information
# about a record that is in all of them or in none. Without random membership of each record there
# is no certificate.
_WANTS_COINS = frozenset({"references", "coins"})


def valid_attacks(mode: SplitMode) -> frozenset[str]:
    """Names of the attacks that are valid under a split, by their `NEEDS`."""
    return frozenset(
        name
        for name in catalogue.names("attacks")
        if mode in RANDOM_SPLITS
        or not catalogue.entry("attacks", name).NEEDS & _WANTS_COINS
    )


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """The data that attacks may use; each attack lists in `NEEDS` the parts it
    requires.

    `shadow`: signals of a model of the same architecture on another, public corpus.
    `texts`: bag-of-words features of the target's records, [n, d], which need no model.
    """

    shadow: Signals | None = None
    texts: sparse.csr_matrix | None = None

    @property
    def parts(self) -> frozenset[str]:
        """Names of the parts that are present."""
        return frozenset(name for name, part in vars(self).items() if part is not None)


def refuse_unless_allowed(attack: str, mode: SplitMode) -> None:
    """Raises: InvalidInput naming attack, split and the splits that allow it."""
    catalogue.entry("attacks", attack)  # raises for an unknown one
    if attack not in valid_attacks(mode):
        raise InvalidInput(
            f"expected data.split {' or '.join(RANDOM_SPLITS)} for the attack"
            f" {attack}, got data.split={mode} (all its trials have the same members)"
        )


def same_records(target: Signals, other: Signals) -> Signals:
    """`other` restricted to the target's records.

    Raises: InvalidInput where it is of another corpus or lacks any of them.
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
    lacking = (
        int((other.records[place] != target.records).sum())
        if len(other)
        else len(target)
    )
    if lacking:
        raise InvalidInput(
            f"expected reference signals on all {len(target)} records of the target,"
            f" {lacking} have none"
        )
    return other.take(place)
