"""The evidence of a trial for comparisons with other trials; for the curator only.

test_counts.npz     counts of right and wrong labels of each test record; below
                    `curator` where the trial's guarantee covers test records
curator/raw.json    its figures of test and validation records without noise
attack_scores.npz   the score of each attack for each row of signals.npz
before.json         SER before training

Numbers alone, never text; files are written atomically.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.errors import InvalidData
from trainables.io.files import (
    DAMAGED,
    dump_json,
    make_folder,
    read_written_json,
    write_arrays,
)
from trainables.metrics import Counts, compare
from trainables.metrics._counts import NAMES, from_table, table

COUNTS, SCORES = "test_counts.npz", "attack_scores.npz"
BEFORE = "before.json"
CURATOR, RAW = "curator", "raw.json"


def write_counts(folder: Path, records: NDArray[np.int64], counts: Counts) -> None:
    """Write the counts [n] of test `records` [n]."""
    write_arrays(folder / COUNTS, {"records": records, "counts": table(counts)})


def write_raw(folder: Path, figures: Mapping[str, Any]) -> None:
    """Write what no epsilon covers of a trial whose guarantee covers every record:
    figures without noise. No command reads them.
    """
    make_folder(folder / CURATOR)
    dump_json(folder / CURATOR / RAW, figures, indent=2)


def read_counts(folder: Path) -> tuple[NDArray[np.int64], Counts]:
    """Records [n] and their counts [n]. Raises: InvalidData for a missing or damaged
    file.
    """
    found = _read_arrays(folder / COUNTS)
    if set(found) != {"records", "counts"} or found["counts"].shape[1:] != (
        len(NAMES),
    ):
        raise _unreadable(folder / COUNTS)
    return found["records"], from_table(found["counts"])


def rows_of(counts: Counts, rows: NDArray[np.bool_]) -> Counts:
    """The counts of some of the records, by a mask [n]."""
    return from_table(table(counts)[rows])


def mean_ser_change(
    folders: Sequence[Path], baselines: Sequence[Path]
) -> dict[str, float] | None:
    """`metrics.compare` of means over trials on the same test records, by their
    folders; None where one has no counts, or their test records differ. Raises:
    InvalidData for a damaged file.
    """
    places = (*folders, *baselines)
    if not all((place / COUNTS).exists() for place in places):
        return None
    ids, counts = zip(*map(read_counts, places), strict=True)
    if not all(np.array_equal(ids[0], other) for other in ids):
        return None
    tables = [table(each) for each in counts]
    # Every trial has the same number of slots in a record: the sum has the mean rate.
    first, second = (
        np.sum(some, axis=0)
        for some in (tables[: len(folders)], tables[len(folders) :])
    )
    return compare(from_table(first), from_table(second))


def write_scores(folder: Path, scores: Mapping[str, NDArray[np.float64]]) -> None:
    """Write attack scores; earlier scores of the same attacks are replaced, others
    kept.
    """
    before = read_scores(folder) if (folder / SCORES).exists() else {}
    write_arrays(folder / SCORES, {**before, **scores})


def read_scores(folder: Path) -> dict[str, NDArray[np.float64]]:
    """Scores by attack, row by row as in signals.npz.

    Raises: InvalidData for a file that is missing or damaged.
    """
    return _read_arrays(folder / SCORES)


def write_before(folder: Path, ser: float) -> None:
    """Keep the SER of a model as it began: a trial that is taken up again has other
    weights.
    """
    make_folder(folder)
    partial = folder / f".{BEFORE}.partial"
    dump_json(partial, {"ser": ser})
    os.replace(partial, folder / BEFORE)


def read_before(folder: Path) -> float | None:
    """The SER that `write_before` kept; None where there is none to be read."""
    try:
        return float(read_written_json(folder / BEFORE)["ser"])
    except (InvalidData, ValueError, KeyError, TypeError):
        return None


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except DAMAGED:
        raise _unreadable(path) from None


def _unreadable(path: Path) -> InvalidData:
    return InvalidData(
        f"expected a trial's evidence in {path}, got a file that cannot be read"
    )
