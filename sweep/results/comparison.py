"""Comparison of two sweeps or trials, paired over the same test utterances, with
intervals.
"""

from dataclasses import dataclass
from pathlib import Path

from sweep.results import select
from sweep.results.frame import CHANGE, paired_change
from sweep.results.tables.fitting import Column, FittedTable
from sweep.store import sweeps as store
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables import attacks, catalogue, figures, formats
from trainables.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a comparison: its representing trial and its sweep."""

    folder: SweepFolder
    record: TrialRecord

    @property
    def name(self) -> str:
        """SWEEP:TRIAL."""
        return f"{self.folder.name}:{self.record.plan.id}"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`figures` has each metric on both sides; `paired` the change of SER from A to B
    in percent and its 95 % interval (paired bootstrap over test utterances), None where
    A makes too few errors or the two were not `tested_on_the_same` utterances.
    """

    first: Side
    second: Side
    figures: dict[str, tuple[float | None, float | None]]
    paired: tuple[float, ...] | None
    tested_on_the_same: bool


def side(home: Path, text: str, *, epsilon_max: float | None = None) -> Side:
    """The side called `text`: SWEEP (its best trial by validation SER) or SWEEP:TRIAL.

    Raises: InvalidInput where there is no such sweep or trial, nothing has finished, a
    sweep has trials on several corpora, or `epsilon_max` would choose where a trial is
    named.
    """
    name, _, trial = text.partition(":")
    if trial and epsilon_max is not None:
        raise InvalidInput(
            f"expected the name of a sweep with epsilon-max={epsilon_max:g}, which"
            f" chooses among its trials, got the trial {text}"
        )
    folder = store.open_sweep(home, name)
    records = folder.records()
    if trial:
        wanted = folder.plan_of(trial).id
        record = next(r for r in records if r.plan.id == wanted)
        if not record.status.is_finished:
            raise InvalidInput(
                f"expected a finished trial, got {wanted} ({record.status})"
            )
    else:
        record = select.choose_one(records, epsilon_max=epsilon_max)
    return Side(folder=folder, record=record)


def compare(first: Side, second: Side) -> Comparison:
    """B against A. Raises: InvalidData for damaged test counts; InvalidInput where one
    side's figures are cut and have noise, and the other's do not.
    """
    if first.record.plan.covers_all != second.record.plan.covers_all:
        raise InvalidInput(
            "expected two trials with privacy.covers=all or two without, got"
            f" {first.name} and {second.name}: figures of at most 3 errors a record,"
            " with noise, are not compared with raw ones"
        )
    values = {
        name: (select.value(first.record, name), select.value(second.record, name))
        for name in (
            *figures.listed_figures(),
            *map(attacks.auc_of, catalogue.names("attacks")),
        )
    }
    found: dict[str, float] | None = None
    if first.record.plan.fields["data"] == second.record.plan.fields["data"]:
        sides = (
            each.folder.trial_folder(each.record.plan.id) for each in (second, first)
        )
        found = paired_change(*([place] for place in sides))
    change = tuple(
        value
        for end in ("", "_low", "_high")
        if (value := (found or {}).get(f"{CHANGE}{end}")) is not None
    )
    return Comparison(
        first=first,
        second=second,
        figures={name: pair for name, pair in values.items() if pair != (None, None)},
        paired=change if len(change) == 3 else None,
        tested_on_the_same=found is not None,
    )


def comparison_table(found: Comparison) -> FittedTable:
    """A row for each figure, a column for each side."""
    heads = ["trial", *map(figures.label, found.figures)]
    columns = [Column(head="", name="figure", cells=heads, is_text=True, is_left=True)]
    for place, side in enumerate((found.first, found.second)):
        values = (
            formats.figure(name, pair[place]) for name, pair in found.figures.items()
        )
        cells = [side.record.plan.name, *values]
        columns.append(Column(head=side.name, cells=cells, is_text=True))
    return FittedTable(title="B against A", columns=columns)


def sentences(found: Comparison) -> list[str]:
    """The paired figures in sentences."""
    if found.paired is not None:
        change, low, high = found.paired
        verdict = "" if low <= 0 <= high else ", significant"
        return [
            f"SER changes by {change:+.1f} % (95 %: {low:+.1f} to"
            f" {high:+.1f}{verdict}), paired over the test utterances."
        ]
    if found.first.record.plan.covers_all:
        return [
            "SER is of at most 3 errors a record and has noise of its own in each"
            " (privacy.covers=all): it is not paired."
        ]
    if found.figures.get("ser", (None, None))[0] == 0:
        return ["SER has no change in percent, because A makes no error."]
    if found.tested_on_the_same:
        return ["SER has no change in percent, because A makes too few errors."]
    if "ser" in found.figures:
        return ["SER is not paired: the two were not tested on the same utterances."]
    return []
