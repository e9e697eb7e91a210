"""All NLU metrics of frames at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainables.data.records import Frame
from trainables.metrics import count_frames, summarize
from trainables.metrics._score import LABELS


def score(
    references: Sequence[Frame],
    hypotheses: Sequence[Frame],
    *,
    labels: frozenset[str] = LABELS,
    bootstrap_samples: int = 1_000,
    seed: int = 0,
    **how: Any,
) -> dict[str, float]:
    """The metrics of the frames' counts, which `how` says how to take."""
    counts = count_frames(references, hypotheses, **how)
    return summarize(counts, labels=labels, bootstrap_samples=bootstrap_samples, seed=seed)
