"""Comparison of two sweeps or trials, paired over the same test utterances, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweep.results import select
from sweep.results.standing import Standing, standings
from sweep.store import sweeps as store
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables import attacks, figures
from trainables.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a comparison: its representing trial and its sweep."""

    folder: SweepFolder
    record: TrialRecord
    records: tuple[TrialRecord, ...]

    @property
    def name(self) -> str:
        """SWEEP:TRIAL."""
        return f"{self.folder.name}:{self.record.plan.id}"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`figures` has each metric on both sides; `paired` the change of SER from A to B in percent
    with its 95 % interval (paired bootstrap over test utterances), None where A makes too few
    errors or the two were not `tested_on_the_same` utterances; `of_prior` each side's SER over
    that at epsilon 0.
    """

    first: Side
    second: Side
    figures: dict[str, tuple[float | None, float | None]]
    paired: tuple[float, float, float] | None
    tested_on_the_same: bool
    of_prior: tuple[float | None, float | None]


def side(home: Path, text: str, *, epsilon_max: float | None = None) -> Side:
    """The side called `text`: SWEEP (its best trial by validation SER) or SWEEP:TRIAL.

    Raises: InvalidInput where there is no such sweep or trial, nothing has finished, a sweep has
    trials on several corpora, or `epsilon_max` would choose where a trial is named.
    """
    name, _, trial = text.partition(":")
    if trial and epsilon_max is not None:
        raise InvalidInput(
            f"expected the name of a sweep with epsilon-max={epsilon_max:g}, which chooses among"
            f" its trials, got the trial {text}"
        )
    folder = store.open_sweep(home, name)
    records = folder.records()
    if trial:
        wanted = folder.plan_of(trial).id
        record = next(r for r in records if r.plan.id == wanted)
        if not record.status.is_finished:
            raise InvalidInput(f"expected a finished trial, got {wanted} ({record.status})")
    else:
        record = select.choose_one(records, epsilon_max=epsilon_max)
    return Side(folder=folder, record=record, records=tuple(records))


def compared_figures() -> tuple[str, ...]:
    """The compared figures, and the AUC of each attack."""
    return (*figures.listed_figures(), *attacks.every_auc())


def compare(first: Side, second: Side) -> Comparison:
    """B against A."""
    sides = (first.record, second.record)
    known = [
        name for name in compared_figures() if any(select.value(r, name) is not None for r in sides)
    ]
    paired = _paired(first.folder, [first.record], second.folder, [second.record])
    return Comparison(
        first=first,
        second=second,
        figures={
            name: (select.value(first.record, name), select.value(second.record, name))
            for name in known
        },
        paired=_finite(paired),
        tested_on_the_same=paired is not None,
        of_prior=(
            select.prior_ratio(first.record, first.records),
            select.prior_ratio(second.record, second.records),
        ),
    )


def standings_of(folder: SweepFolder, records: Sequence[TrialRecord]) -> list[Standing]:
    """The standings of a sweep's trials (`standing.standings`), paired by their stored test counts.

    Raises: as `standing.standings`, and InvalidData for a damaged file.
    """
    return standings(
        records, pair=lambda first, second: _finite(_paired(folder, first, folder, second))
    )


def _paired(
    first_folder: SweepFolder,
    first: Sequence[TrialRecord],
    second_folder: SweepFolder,
    second: Sequence[TrialRecord],
) -> tuple[float, float, float] | None:
    """The change of mean test SER from the first trials to the second in percent, with its 95 %
    interval, not finite where the first make too few errors; None where the two were not tested on
    the same records.

    Raises: InvalidData for a damaged file.
    """
    from trainables import evidence

    data = first[0].plan.fields["data"]
    if any(record.plan.fields["data"] != data for record in (*first, *second)):
        return None
    places = [
        [folder.trial_folder(record.plan.id) for record in records]
        for folder, records in ((second_folder, second), (first_folder, first))
    ]
    found = evidence.mean_ser_change(*places)
    if found is None:
        return None
    change, low, high = (found[f"delta_ser_percent{end}"] for end in ("", "_low", "_high"))
    return change, low, high


def _finite(change: tuple[float, float, float] | None) -> tuple[float, float, float] | None:
    return change if change is not None and all(map(math.isfinite, change)) else None
