"""The reasons why a sweep ran fewer trials than planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sweep.search.source import ended_early
from sweep.store.sweeps import SweepFolder, TrialRecord


def unrun(folder: SweepFolder, records: Sequence[TrialRecord]) -> list[str]:
    """Sentences with the reasons of trials that did not end, and of a search that ended early."""
    waiting = [r for r in records if r.status.is_pending and r.reason]
    found = [
        f"{number} of {len(records)} trials did not run to their end: {reason}."
        for reason, number in Counter(str(record.reason) for record in waiting).items()
    ]
    if (sentence := ended_early(folder)) is not None:
        found.append(sentence)
    return found
