"""Entries of the ledger: the releases of attempts at trials. Plain frozen data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from trainables import catalogue
from trainables.accountants import Release, release
from trainables.errors import InvalidData, InvalidInput
from trainables.privacy.mechanism import Mechanism


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Epochs `first_epoch` to `epochs` - 1 of one attempt at one trial, charged to a data set.

    `dataset` is the data set's name (`HomeKey.name_of`); its plain fingerprint in an entry that is
    not written yet, or that an earlier version wrote.

    Entries of one attempt replace each other; the furthest counts. A resumed trial is a new
    attempt. Its repeated epochs are charged again, since their first outcome may have been seen.
    """

    dataset: str
    sweep: str
    trial: str
    attempt: int
    first_epoch: int
    epochs: int
    delta: float
    release: Release
    dataset_name: str = ""  # for people
    at: float = 0.0  # seconds since 1970
    baseline: bool = False  # of its sweep: exempt from user-defined totals

    def to_dict(self) -> dict[str, Any]:
        """Plain data, from which `entry_from` makes an equal entry again."""
        fields = {name: getattr(self, name) for name in _PLAIN_FIELDS}
        return fields | {"baseline": self.baseline, "release": self.release.to_dict()}


_PLAIN_FIELDS = (
    *("dataset", "dataset_name", "sweep", "trial", "attempt", "first_epoch", "epochs"),
    *("delta", "at"),
)


def entry_for(
    mechanism: Mechanism,
    *,
    dataset: str,
    sweep: str,
    trial: str,
    epochs: int,
    attempt: int = 1,
    first_epoch: int = 0,
    dataset_name: str = "",
    baseline: bool = False,
) -> Entry:
    """The entry that charges a mechanism's epochs `first_epoch` to `epochs` - 1.

    Raises: InvalidInput unless 0 <= first_epoch < epochs <= the mechanism's.
    """
    if first_epoch >= epochs:
        raise InvalidInput(
            f"expected first_epoch < epochs, got first_epoch={first_epoch}, epochs={epochs}"
        )
    return Entry(
        dataset=dataset,
        sweep=sweep,
        trial=trial,
        attempt=attempt,
        first_epoch=first_epoch,
        epochs=epochs,
        delta=mechanism.delta,
        release=release(mechanism, first=first_epoch, last=epochs),
        dataset_name=dataset_name,
        baseline=baseline,
    )


def entry_from(fields: dict[str, Any]) -> Entry:
    """The entry from an `Entry.to_dict`.

    Raises: InvalidData where a field is missing.
    """
    try:
        return Entry(
            **{name: fields[name] for name in _PLAIN_FIELDS},
            release=_release_of(fields),
            baseline=bool(fields.get("baseline", False)),
        )
    except KeyError as missing:
        raise InvalidData(f"expected the ledger's entries to have the field {missing}") from None


def _release_of(fields: dict[str, Any]) -> Release:
    """The entry's release. An earlier version called a couple of exchanged programs a group, the
    only kind of group on pairs of an utterance and a program.
    """
    what = Release.from_dict(fields["release"])
    name = fields["dataset_name"]
    pairs = name in catalogue.names("datasets", kind="pairs")
    return replace(what, unit="couple") if pairs and what.unit == "group" else what


def furthest(entries: Iterable[Entry]) -> list[Entry]:
    """The furthest entry of each attempt at a trial, which includes the others."""
    kept: dict[tuple[str, int, int], Entry] = {}
    for entry in entries:
        key = attempt_key(entry)
        if key not in kept or kept[key].epochs <= entry.epochs:
            kept[key] = entry
    return list(kept.values())


def attempt_key(entry: Entry) -> tuple[str, int, int]:
    """A key of entries that replace each other; the furthest counts."""
    return entry.trial, entry.attempt, entry.first_epoch
