"""Table 2: the seconds of an epoch of each engine, from measured steps of short runs.

Each row is measured once and kept in a file under a digest of its settings, so that an interrupted
table goes on and rows of different settings never mix.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from search_spaces.parts import Part
from sweep.bench.contestants import Spec
from sweep.bench.outcome import Found, ratios
from sweep.reproduction.description import Model, document_of
from sweep.settings import Settings
from sweep.store.files import exists, read_json, write_json
from trainables.errors import InvalidInput
from trainables.frozen import validated

FILE = "table2.json"
Measure = Callable[[Spec], Found]
Say = Callable[[str], None]


class TimedCorpus(Part):
    """One corpus of the table: the fields of its data."""

    data: dict[str, Any]


class Timing(Part):
    """The description of the table. `workers`: numbers N of logical workers; `steps`: measured
    steps of each engine; `seconds`: of processor, after which an engine is measured no further.
    """

    engines: tuple[str, ...] = Field(min_length=1)
    corpora: dict[str, TimedCorpus]
    models: dict[str, Model]
    workers: tuple[int, ...] = Field(min_length=1)
    training: dict[str, Any] = Field(default_factory=dict)
    privacy: dict[str, Any] = Field(default_factory=dict)
    steps: int = Field(ge=2)
    seconds: float = Field(gt=0)
    paper_notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One engine of a row: processor seconds of an epoch, the mean of its measured steps scaled to
    an epoch and their standard deviation; `factor` over the first engine of the row and its
    quartiles, each from the ratios within a round.
    """

    engine: str
    steps: int
    epoch_seconds: float
    deviation: float
    factor: float
    factor_low: float
    factor_high: float


@dataclass(frozen=True, kw_only=True)
class TimedRow:
    """One corpus, model and number of logical workers, with `num_records` training records."""

    corpus: str
    model: str
    workers: int
    num_records: int
    steps_per_epoch: int
    cells: tuple[Cell, ...]


def read(*, records: int | None = None) -> Timing:
    """The shipped description, with the models of table 1; `records` of each generated corpus.

    Raises: InvalidInput for its first problem.
    """
    document = document_of("table2")
    for corpus in document["corpora"].values():
        if records is not None and "num_utterances" in corpus["data"]:
            corpus["data"] = {**corpus["data"], "num_utterances": records}
    return validated(Timing, {**document, "models": document_of("table1")["models"]})


def specs(
    timing: Timing, corpora: Sequence[str], models: Sequence[str], settings: Settings
) -> dict[tuple[str, str, int], Spec]:
    """What is measured, by corpus, model and number of workers.

    Raises: InvalidInput for a number of workers that the batch cannot be shared among.
    """
    batch = timing.training["expected_batch_size"]
    for workers in timing.workers:
        if batch % workers:
            raise InvalidInput(f"expected --workers to divide a batch of {batch}, got {workers}")
    found = {}
    for corpus in corpora:
        for model in models:
            own = timing.models[model]
            for workers in timing.workers:
                training = {**timing.training, **own.training, "num_workers": workers}
                # More epochs than any trial has, so that steps never run out.
                fields = {
                    "data": timing.corpora[corpus].data,
                    "model": own.model,
                    "privacy": timing.privacy,
                    "training": {**training, "epochs": 1000},
                }
                found[corpus, model, workers] = Spec(
                    fields=fields,
                    engines=timing.engines,
                    repeats=timing.steps,
                    seconds=timing.seconds,
                    data_dir=settings.data_dir,
                    cache_dir=settings.cache_dir,
                )
    return found


def every_spec(
    timing: Timing, folder: Path, settings: Settings
) -> dict[tuple[str, str, int], Spec]:
    """`specs` of all corpora and models, by the numbers of workers of the description and of the
    rows in `folder`.
    """
    measured = {row["workers"] for row in read_rows(folder).values()}
    batch = timing.training["expected_batch_size"]
    numbers = sorted({*timing.workers, *(count for count in measured if batch % count == 0)})
    whole = timing.model_copy(update={"workers": tuple(numbers)})
    return specs(whole, list(timing.corpora), list(timing.models), settings)


def run(
    wanted: dict[tuple[str, str, int], Spec], folder: Path, *, measure: Measure, say: Say
) -> None:
    """Measure the rows that the file in `folder` lacks; each is written as soon as it is known."""
    for number, (key, spec) in enumerate(wanted.items(), start=1):
        corpus, model, workers = key
        head = f"row {number} of {len(wanted)}: {corpus}, {model}, N = {workers}"
        if digest(spec) in read_rows(folder):
            say(f"{head}: measured before")
            continue
        say(head)
        found = measure(spec)
        kept = read_rows(folder)  # another run may have written to it meanwhile
        kept[digest(spec)] = {
            "corpus": corpus,
            "model": model,
            "workers": workers,
            "num_records": found.num_records,
            "steps_per_epoch": found.steps_per_epoch,
            "cpu_seconds": {engine: list(times.cpu) for engine, times in found.times.items()},
        }
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_json(folder / FILE, kept)


def rows(wanted: dict[tuple[str, str, int], Spec], folder: Path) -> list[TimedRow]:
    """The rows of the table that have been measured, in its order."""
    kept = read_rows(folder)
    found = []
    for spec in wanted.values():
        row = kept.get(digest(spec))
        if row is None:
            continue
        base = row["cpu_seconds"][spec.engines[0]]
        found.append(
            TimedRow(
                corpus=row["corpus"],
                model=row["model"],
                workers=row["workers"],
                num_records=row["num_records"],
                steps_per_epoch=row["steps_per_epoch"],
                cells=tuple(
                    cell(engine, row["cpu_seconds"][engine], base, row["steps_per_epoch"])
                    for engine in spec.engines
                    if engine in row["cpu_seconds"]
                ),
            )
        )
    return found


def read_rows(folder: Path) -> dict[str, dict[str, Any]]:
    """The rows of the file, by their digests; empty without one."""
    found: dict[str, dict[str, Any]] = read_json(folder / FILE) if exists(folder / FILE) else {}
    return found


def cell(engine: str, cpu: Sequence[float], base: Sequence[float], steps_per_epoch: int) -> Cell:
    """A cell from the processor seconds of steps; `base` has those of the first engine.

    >>> found = cell("x", [2.0, 2.0], [1.0, 1.0], 10)
    >>> found.epoch_seconds, found.deviation, found.factor
    (20.0, 0.0, 2.0)
    """
    low, middle, high = ratios(cpu, base)
    return Cell(
        engine=engine,
        steps=len(cpu),
        epoch_seconds=steps_per_epoch * statistics.fmean(cpu),
        deviation=steps_per_epoch * (statistics.stdev(cpu) if len(cpu) > 1 else 0.0),
        factor=middle,
        factor_low=low,
        factor_high=high,
    )


def digest(spec: Spec) -> str:
    """12 hex digits of what the figures depend on: the configs, with defaults, and the steps."""
    ids = [spec.config(engine).id for engine in spec.engines]
    text = json.dumps([ids, list(spec.engines), spec.repeats, spec.seconds])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
