"""Reads the points that an earlier run of a table has chosen."""

from __future__ import annotations

import csv
from pathlib import Path

from sweep.reproduction.description import Pair, Point, Table
from trainables.errors import InvalidInput
from trainables.frozen import validated

_COLUMNS = ("corpus", "model", "decay", "c", "z0", "tau", "is_best")


def with_points_from(table: Table, file: Path) -> Table:
    """The table with the best points of `file`, a `table1_points.csv`; their coarse passes are
    left out.

    Raises: InvalidInput for a file that cannot be read, has other columns, or names a decay that
    the table has not.
    """
    chosen: dict[str, dict[str, Point]] = {}
    for place, row in _rows(file):
        if row["is_best"] != "True":
            continue
        if row["decay"] not in table.decays:
            raise InvalidInput(
                f"expected decay to be one of {', '.join(table.decays)}, got {row['decay']!r}"
                f" ({place})"
            )
        try:
            point = validated(Point, {name: _number(row[name]) for name in ("c", "z0", "tau")})
        except InvalidInput as error:
            raise InvalidInput(f"{error} ({place})") from None
        pair = Pair(corpus=row["corpus"], model=row["model"])
        chosen.setdefault(pair.name, {})[row["decay"]] = point
    if not chosen:
        raise InvalidInput(f"expected a row of {file} with is_best True, got none")
    return table.model_copy(update={"chosen": chosen})


def _number(text: str) -> float | str:
    """The text itself where it is no number, which the point refuses."""
    try:
        return float(text)
    except ValueError:
        return text


def _rows(file: Path) -> list[tuple[str, dict[str, str]]]:
    """Each row, and its place in words."""
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            reader = csv.DictReader(opened)
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise InvalidInput(
                    f"expected the columns {', '.join(_COLUMNS)} in {file},"
                    f" got none named {', '.join(missing)}"
                )
            return [
                (f"line {reader.line_num} of {file}", {name: row[name] or "" for name in _COLUMNS})
                for row in reader
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(
            f"expected --points-from to be a CSV file, got {file}: {error}"
        ) from None
