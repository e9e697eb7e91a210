"""Runs the stages of a table that have not ended, as ordinary sweeps, and writes the table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from search_spaces.space import SearchSpace
from sweep import interrupts
from sweep.planning.prepare import prepare_space, replace_space
from sweep.planning.refusals import require_trials
from sweep.reproduction import collect, stages, steps, table1
from sweep.reproduction.description import Pair, Table
from sweep.runtime.live import Execution as Execution
from sweep.runtime.live import preparing
from sweep.settings import Settings
from sweep.store import sweeps as store
from sweep.store.data_sets import is_at_hand
from sweep.store.files import write_text
from sweep.store.starting import starting
from sweep.store.status import TrialStatus
from trainables.config import data_config
from trainables.errors import InvalidInput

Say = Callable[[str], None]
_GOES_ON = "every finished epoch is saved; the same `sweep reproduce` continues"


def at_hand(
    table: Table, pairs: Sequence[Pair], settings: Settings, *, available: bool
) -> tuple[list[Pair], list[str]]:
    """The pairs whose data can be read, and the names of corpora that are missing.

    Raises: InvalidInput as `missing_data`.
    """
    needed = {pair.corpus: (pair.corpus, table.corpora[pair.corpus].points_of) for pair in pairs}
    data = {
        name: table.corpora[name].data
        for name in dict.fromkeys(name for names in needed.values() for name in names if name)
    }
    missing = missing_data(data, settings, available=available)
    found = [pair for pair in pairs if not set(needed[pair.corpus]) & set(missing)]
    return found, missing


def missing_data(
    data: Mapping[str, dict[str, Any]], settings: Settings, *, available: bool
) -> list[str]:
    """The names of corpora that are not at hand; `data` has the fields of each.

    Raises: InvalidInput where one is missing, unless `available`, or where all are.
    """
    missing = [n for n, fields in data.items() if not is_at_hand(data_config(**fields), settings)]
    some = len(missing) < len(data)
    if missing and not (available and some):
        more = "; --available runs the rest" if some else ""
        raise InvalidInput(
            f"expected the data of {', '.join(missing)} in {settings.data_dir}"
            f" (SWEEP_DATA_DIR, see `sweep data list`), got none{more}"
        )
    return missing


def run_table(
    table: Table,
    pairs: Sequence[Pair],
    settings: Settings,
    *,
    leakage: bool,
    execution: Execution,
    write_files: Callable[[], object],
    say: Say,
) -> list[str]:
    """Run every stage that is not over, in order; `write_files` is called after each full stage.
    Returns a sentence for each stage that has failed trials or no points.

    Raises: as `runner.start` and `runner.resume`.
    """
    problems = []
    every = steps.steps(table, pairs, leakage=leakage)
    for number, step in enumerate(every, start=1):
        stage = steps.stage_of(table, step, settings.home)
        if stage is None:
            problems.append(f"{step.part} of {step.pair.name}: a stage before it has no result")
            continue
        head = f"stage {number} of {len(every)}: {stage.name}"
        if collect.is_complete(stage, collect.records_of(settings.home, stage)):
            say(f"{head}: has ended")
            continue
        say(head)
        run_space(stage.space, settings, execution=execution, say=say)
        records = collect.records_of(settings.home, stage)
        failed = sum(record.status is TrialStatus.FAILED for record in records)
        if failed:
            problems.append(f"{failed} of {len(records)} trials of {stage.name} failed")
        if step.part != stages.COARSE:
            write_files()
    return problems


def run_space(space: SearchSpace, settings: Settings, *, execution: Execution, say: Say) -> None:
    """Start the sweep of a space, or go on with it where it has begun.

    Raises: as `runner.start` and `runner.resume`.
    """
    name = space.name
    with (
        interrupts.explain(lambda: _GOES_ON),
        starting(settings.home, name),
    ):
        if (settings.home / name / "sweep.json").exists():
            folder = store.open_sweep(settings.home, name)
            replace_space(folder, space, settings=settings, accept=True)
            execution.resume(folder, settings, say=say)
            return
        with preparing(execution.console, quiet=execution.quiet):
            prepared = prepare_space(space, settings=settings)
        require_trials(prepared.plan)
        for note in prepared.notes:
            say(note)
        execution.start(prepared, settings, command=["sweep", *sys.argv[1:]])


def write(table: Table, pairs: Sequence[Pair], home: Path, output: Path) -> list[Path]:
    """Write `table1.md`, `table1.csv` and `table1_points.csv` of what has ended; their paths."""
    rows = steps.rows(table, pairs, home)
    coarse = steps.coarse_rows(table, pairs, home)
    texts = {
        "table1.md": table1.markdown(table, rows, coarse),
        "table1.csv": table1.csv_text(rows),
        "table1_points.csv": table1.csv_text(coarse),
    }
    return write_texts(output, texts)


def write_texts(output: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files of these names to a folder; their paths."""
    output.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, text in texts.items():
        write_text(output / name, text)
    return [output / name for name in texts]


def summary(table: Table, pairs: Sequence[Pair], home: Path, written: Sequence[Path]) -> Any:
    """The rows of the table as plain data, and the files that were written."""
    return {
        "rows": [table1.plain(row) for row in steps.rows(table, pairs, home)],
        "points": [table1.plain(row) for row in steps.coarse_rows(table, pairs, home)],
        "written": [str(path) for path in written],
    }
