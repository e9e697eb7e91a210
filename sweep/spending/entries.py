"""Entries of the ledger, the releases of attempts at trials, and the price of a trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from sweep.store.plans import PlannedTrial
from trainables.errors import InvalidInput
from trainables.guarantee.mechanism import Mechanism
from trainables.guarantee.releases import Release, release


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Epochs `first_epoch` to `epochs` - 1 of one attempt at one trial, charged to a data set.

    `dataset` is the data set's name (`HomeKey.name_of`); its plain fingerprint in an entry that is
    not written yet.

    Entries of one attempt replace each other; the furthest counts. A resumed trial is a new
    attempt. Its repeated epochs are charged again, since their first outcome may have been seen.
    """

    # In the order in which the ledger has them.
    dataset: str
    dataset_name: str = ""  # for people
    sweep: str  # `SweepFolder.ledger_name` at the time of the charge
    trial: str
    attempt: int
    first_epoch: int
    epochs: int
    delta: float
    at: float = 0.0  # seconds since 1970
    baseline: bool = False  # of its sweep: without noise, exempt from user-defined totals
    release: Annotated[Release, Field(discriminator="kind")]

    @property
    def sweep_id(self) -> str:
        """What identifies the sweep: a folder that was renamed, moved or copied is the same."""
        return sweep_id_in(self.sweep)

    @property
    def is_exempt(self) -> bool:
        """Whether totals leave it out. A finite cost is a private engine's, which always counts."""
        return self.baseline and bool(self.release.reasons)


ENTRY = TypeAdapter(Entry)


def entry_for(mechanism: Mechanism, *, epochs: int, first_epoch: int = 0, **who: Any) -> Entry:
    """The entry that charges a mechanism's epochs `first_epoch` to `epochs` - 1. `who`: the other
    fields of an entry; the first attempt by default.

    Raises: InvalidInput unless 0 <= first_epoch < epochs <= the mechanism's.
    """
    if first_epoch >= epochs:
        raise InvalidInput(
            f"expected first_epoch < epochs, got first_epoch={first_epoch}, epochs={epochs}"
        )
    return Entry(
        **{"attempt": 1, **who},
        first_epoch=first_epoch,
        epochs=epochs,
        delta=mechanism.delta,
        release=release(mechanism, first=first_epoch, last=epochs),
    )


def sweep_id_in(ledger_name: str) -> str:
    """The id in a sweep's name in the ledger.

    >>> sweep_id_in("renamed@0123abcd") == sweep_id_in("grid@0123abcd")
    True
    """
    return ledger_name.rpartition("@")[2]


def attempt_key(entry: Entry) -> tuple[str, int, int]:
    """A key of entries that replace each other; the furthest counts."""
    return entry.trial, entry.attempt, entry.first_epoch


@dataclass(frozen=True, kw_only=True)
class PricedTrial:
    """A planned trial with the mechanism of its epochs and its data set."""

    trial: PlannedTrial
    mechanism: Mechanism
    dataset: str
    dataset_name: str
