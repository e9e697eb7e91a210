"""Figures of an epoch of training: losses, gradients and noise. Pure."""

import math
from collections.abc import Sequence

from trainables.figures import VALIDATION, Figure, nlu_rate, public, text_figure

CLIP_DIFFERENCE = "clip_difference"
# Computed from private records without noise, all but the norm of the noise and the
# error before.
FIGURES = (
    nlu_rate(
        name="ser_before_training",
        label="SER at epsilon 0: from the names of the labels, before any record was"
        " read",
        better="lower",
    ),
    Figure(
        name="train_loss",
        label="training loss",
        better="lower",
        unit="nats",
        per_epoch=True,
    ),
    Figure(
        name="gradient_norm",
        label="mean gradient norm before clipping (over alpha_k)",
        per_epoch=True,
    ),
    Figure(
        name="clip_fraction",
        label="share of gradients longer than max_grad_norm",
        per_epoch=True,
        written="rate",
    ),
    Figure(
        name=CLIP_DIFFERENCE,
        label="largest difference of a clipped sum from its recomputation in float64",
        better="lower",
        unit="C",
        per_epoch=True,
    ),
    Figure(
        name="nonfinite_gradients",
        label="non-finite gradients",
        better="lower",
        per_epoch=True,
        written="count",
    ),
    public(
        name="noise_norm",
        label="expected norm of the noise in a mean gradient (central: over alpha_k)",
        per_epoch=True,
    ),
    *(
        text_figure(
            name=f"{VALIDATION}loss{stage and f'_{stage}'}",
            label=f"validation loss{stage and f' of {stage}'}",
            better="lower",
            unit="nats per token",
            per_epoch=True,
            objective=not stage,
        )
        for stage in ("", "parses", "utterances")
    ),
)
SUMS = ("loss", "records", "lost", "norm", "clipped", "nonfinite", "units")


def of_sums(sums: Sequence[float]) -> dict[str, float]:
    """The figures of an epoch from the sums over its steps, in the order of `SUMS`.
    `units` are the clipping units: records or micro-batches. Means are over finite
    losses and norms, NaN where there is none.

    >>> found = of_sums([3.0, 3.0, 1.0, 8.0, 1.0, 0.0, 4.0])
    >>> found["train_loss"], found["gradient_norm"], found["clip_fraction"]
    (1.5, 2.0, 0.25)
    """
    loss, records, lost, norm, clipped, nonfinite, units = sums
    return {
        "train_loss": _mean(loss, records - lost),
        "gradient_norm": _mean(norm, units - nonfinite),
        "clip_fraction": clipped / max(1.0, units),
        "nonfinite_gradients": nonfinite,
    }


def _mean(total: float, count: float) -> float:
    return total / count if count else math.nan
