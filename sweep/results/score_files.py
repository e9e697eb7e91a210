"""Every metric of predictions, or of an attack's scores, in files of JSON lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sweep.results.line_files import read_frames, read_scores, refuse_unless_aligned
from trainables import metrics
from trainables.attacks._panel import estimates
from trainables.errors import InvalidInput
from trainables.metrics import Align, Match, membership


def score_files(
    reference: Path,
    hypothesis: Path,
    *,
    align: Align,
    match: Match,
    bootstrap_samples: int,
    seed: int,
) -> dict[str, float]:
    """The metrics of two files; `align` pairs slots, `match` is the criterion of a correct one.
    Intents or slots that the reference lacks are not scored.

    Raises: InvalidInput for files that are damaged or do not match.
    """
    right, guess = read_frames(reference), read_frames(hypothesis)
    refuse_unless_aligned(right, guess, spans=match == "span")
    guessed = guess.frames
    if not right.annotates_slots:
        guessed = [replace(frame, slots=()) for frame in guessed]
    has_slots = right.annotates_slots and (right.has_slots or guess.has_slots)
    labels = {"intents": right.has_intents, "slots": has_slots}
    counts = metrics.count_frames(
        right.frames,
        guessed,
        align=align,
        match=match,
        tokens=right.tokens,
        hypothesis_tokens=guess.tokens,
    )
    return metrics.summarize(
        counts,
        labels=frozenset(kind for kind, there in labels.items() if there),
        bootstrap_samples=bootstrap_samples,
        seed=seed,
    )


def membership_figures(path: Path, *, delta: float | None, epsilon: float | None) -> dict[str, Any]:
    """Every figure of the scores in a file.

    With `delta` also the estimates of epsilon (no certificate); with `epsilon` as well, the
    violated bounds of that claim (`inconsistent_with_claim`).

    Raises: InvalidInput for a file that is damaged or lacks members or non-members.
    """
    if epsilon is not None and delta is None:
        raise InvalidInput("expected --delta with --epsilon")
    values, member = read_scores(path)
    found: dict[str, Any] = {
        name: _plain(name, value) for name, value in membership.figures(values, member).items()
    }
    if delta is not None:
        found |= estimates(values, member, delta=delta)
    if epsilon is not None and delta is not None:
        broken = membership.dp_inconsistencies(values, member, epsilon=epsilon, delta=delta)
        found["inconsistent_with_claim"] = list(broken)
    return found


def _plain(name: str, value: float) -> float | int | bool:
    """Convert flags to booleans and counts to integers, which trackers store as floats."""
    if name.endswith("_low_resolution"):
        return bool(value)
    return int(value) if name.startswith("num_") else value
