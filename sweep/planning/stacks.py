"""Which trials a worker is given together: those that one stacked model can train in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sweep.runtime.events import TrialJob


def stacked(
    jobs: Sequence[TrialJob],
    *,
    at_most: int,
    key_of: Callable[[TrialJob], str | None],
) -> list[TrialJob]:
    """The jobs in an order in which the members of a stack follow each other, each with the name of
    its stack, or "" where it runs alone. Stacks are as even as they can be: 5 jobs with `at_most` 4
    make 3 and 2. Jobs whose `key_of` differs, or is None, are never together.
    """
    kinds: dict[str, list[TrialJob]] = {}
    alone: list[TrialJob] = []
    for job in jobs:
        key = key_of(job) if at_most > 1 and job.workers == 1 else None
        if key is None:
            alone.append(job)
        else:
            kinds.setdefault(key, []).append(job)
    found: list[TrialJob] = []
    for key, alike in kinds.items():
        for number, part in enumerate(_parts(alike, at_most=at_most)):
            name = f"{key}-{number}" if len(part) > 1 else ""
            found += [replace(job, stack=name) for job in part]
    return [*found, *alone]


def sizes(jobs: Iterable[TrialJob]) -> list[int]:
    """Members of each stack; a job alone is none.

    >>> from pathlib import Path
    >>> job = TrialJob(trial_id="a", config={}, folder=Path(), stack="s")
    >>> sizes([job, replace(job, trial_id="b"), replace(job, stack="")])
    [2]
    """
    counts: dict[str, int] = {}
    for job in jobs:
        if job.stack:
            counts[job.stack] = counts.get(job.stack, 0) + 1
    return list(counts.values())


def _parts(jobs: list[TrialJob], *, at_most: int) -> list[list[TrialJob]]:
    number = -(-len(jobs) // at_most)
    base, more = divmod(len(jobs), number)
    parts, start = [], 0
    for index in range(number):
        size = base + (index < more)
        parts.append(jobs[start : start + size])
        start += size
    return parts
