"""The registered figures of an epoch of training: losses, gradients and noise."""

from trainables.figures import (
    CLIP_DIFFERENCE,
    VALIDATION,
    Figure,
    nlu_rate,
    public,
    text_figure,
)

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
