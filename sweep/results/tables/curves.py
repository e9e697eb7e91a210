"""Validation curves by epoch, read from a sweep's folder for the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from sweep.store.sweeps import SweepFolder
from trainables import goals


def curves_of(folder: SweepFolder) -> Callable[[str], Sequence[float | None]]:
    """A function that reads a trial's curve; an unreadable one is empty."""

    @cache
    def read(trial_id: str) -> tuple[float | None, ...]:
        rows = folder.epochs(trial_id)
        return tuple(goals.validation_figure(row["metrics"])[1] for row in rows)

    return read
