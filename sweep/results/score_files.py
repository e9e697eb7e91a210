"""Every metric of predictions in files of JSON lines."""

from __future__ import annotations

from pathlib import Path

from sweep.store.line_files import read_frames, refuse_unless_aligned
from trainables import metrics
from trainables.metrics import Align, Match


def score_files(
    reference: Path,
    hypothesis: Path,
    *,
    align: Align,
    match: Match,
    bootstrap_samples: int,
    seed: int,
) -> dict[str, float]:
    """The metrics of two files: `align` says how slots are paired, `match` what makes one right.

    Raises: InvalidInput for files that are damaged or do not belong together.
    """
    right, guess = read_frames(reference), read_frames(hypothesis)
    refuse_unless_aligned(right, guess, spans=match == "span")
    return metrics.score(
        right.frames,
        guess.frames,
        align=align,
        match=match,
        tokens=right.tokens,
        hypothesis_tokens=guess.tokens,
        bootstrap_samples=bootstrap_samples,
        seed=seed,
    )
