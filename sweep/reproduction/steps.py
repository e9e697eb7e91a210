"""The order of the stages of a table, and the stage of a step once its points are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweep.reproduction import collect, stages
from sweep.reproduction.description import Pair, Point, Table
from sweep.reproduction.rows import CoarseRow, Row
from sweep.reproduction.stages import Points, Stage
from sweep.results import select


@dataclass(frozen=True, kw_only=True)
class Step:
    """A stage before its points are known; `decay` of the coarse part alone."""

    pair: Pair
    part: str
    decay: str | None = None


def steps(table: Table, pairs: Sequence[Pair], *, leakage: bool) -> list[Step]:
    """Pair by pair: the coarse passes (of the pair that has the points) of decays without a chosen
    point, then the full stage, then that of leakage where it is wanted.
    """
    found: list[Step] = []
    for pair in pairs:
        searched = _coarse_pair(table, pair)
        found += [
            Step(pair=searched, part=stages.COARSE, decay=decay)
            for decay in _decays(table, pair)
            if decay not in table.chosen.get(searched.name, {})
        ]
        found.append(Step(pair=pair, part=stages.FULL))
        if leakage:
            found.append(Step(pair=pair, part=stages.LEAKAGE))
    return list(dict.fromkeys(found))


def stage_of(table: Table, step: Step, home: Path) -> Stage | None:
    """The stage of a step; None where no trial that its points come from has ended."""
    if step.decay is not None:
        return stages.coarse(table, step.pair, step.decay)
    best = best_points(table, step.pair, home)
    if any(decay not in best for decay in _decays(table, step.pair)):
        return None
    return _stage_at(table, step, best, home)


def _stage_at(table: Table, step: Step, best: Points, home: Path) -> Stage | None:
    """The full stage or that of leakage, with each decay at its best point."""
    full = stages.full(table, step.pair, best)
    if step.part == stages.FULL:
        return full
    method = best_method(full, home)
    return None if method is None else stages.leakage(table, step.pair, method, best)


def best_points(table: Table, pair: Pair, home: Path) -> dict[str, Point]:
    """Of each decay: the chosen point, or where its coarse pass has ended that with the least
    validation SER.
    """
    searched = _coarse_pair(table, pair)
    found = dict(table.chosen.get(searched.name, {}))
    for decay in _decays(table, pair):
        if decay in found:
            continue
        stage = stages.coarse(table, searched, decay)
        records = collect.records_of(home, stage)
        record = collect.best(records)
        if record is not None and collect.has_ended(stage, records):
            found[decay] = stage.points[collect.variants(stage)[record.plan.id]]
    return found


def best_method(full: Stage, home: Path) -> str | None:
    """The method of a decay with the least mean validation SER of the full stage, once ended."""
    every = collect.records_of(home, full)
    if not collect.has_ended(full, every):
        return None
    searched = {label: method for label, method in full.methods.items() if label in full.points}
    labels = collect.variants(full)
    record = collect.best([r for r in every if labels[r.plan.id] in searched])
    return None if record is None else searched[labels[record.plan.id]]


def coarse_rows(table: Table, pairs: Sequence[Pair], home: Path) -> list[CoarseRow]:
    """Every point of the coarse passes that have begun."""
    found = []
    for step in steps(table.model_copy(update={"chosen": {}}), pairs, leakage=False):
        if step.decay is None:
            continue
        stage = stages.coarse(table, step.pair, step.decay)
        records, labels = collect.records_of(home, stage), collect.variants(stage)
        best = collect.best(records) if collect.has_ended(stage, records) else None
        found += [
            CoarseRow(
                corpus=step.pair.corpus,
                model=step.pair.model,
                decay=step.decay,
                point=stage.points[labels[record.plan.id]],
                status=record.status.value,
                epochs_done=record.epochs_done,
                seconds=record.seconds,
                validation_ser=select.value(record, "validation_ser"),
                is_best=best is not None and record.plan.id == best.plan.id,
            )
            for record in records
        ]
    return found


def rows(table: Table, pairs: Sequence[Pair], home: Path) -> list[Row]:
    """The rows of every full stage, and of those of leakage, that have a finished trial; a method
    whose coarse pass has not ended hides no other.
    """
    found: list[Row] = []
    for step in steps(table, pairs, leakage=True):
        if step.decay is None:
            best = best_points(table, step.pair, home)
            stage = _stage_at(_with_points(table, step.pair, best), step, best, home)
            found += [] if stage is None else collect.rows(home, stage)
    return found


def _with_points(table: Table, pair: Pair, best: Points) -> Table:
    """The table without the methods of the pair that have no best point yet."""
    corpus = table.corpora[pair.corpus]
    names = corpus.methods or tuple(table.methods)
    ready = tuple(n for n in names if table.methods[n].decay in (None, *best))
    own = corpus.model_copy(update={"methods": ready})
    return table.model_copy(update={"corpora": {**table.corpora, pair.corpus: own}})


def _coarse_pair(table: Table, pair: Pair) -> Pair:
    """The pair whose coarse passes choose the points of `pair`."""
    source = table.corpora[pair.corpus].points_of
    return pair if source is None else Pair(corpus=source, model=pair.model)


def _decays(table: Table, pair: Pair) -> list[str]:
    names = table.corpora[pair.corpus].methods or tuple(table.methods)
    return [decay for name in names if (decay := table.methods[name].decay) is not None]
