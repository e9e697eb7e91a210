"""The result of a trial as frozen data, and the figures of its epochs."""

from dataclasses import dataclass, field
from functools import partial

from trainables.cards.card import PrivacyCard
from trainables.figures import Figure, public, public_count

_seconds = partial(public, better="lower", unit="s", written="seconds")
FIGURES = (
    _seconds(
        name="seconds", label="seconds of the trial", objective=True, is_listed=True
    ),
    _seconds(name="epoch_seconds", label="seconds of the last epoch", per_epoch=True),
    *(
        _seconds(name=f"seconds_{part}", label=f"seconds of {words}")
        for part, words in (
            ("prepare", "preparation"),
            ("train", "training"),
            ("epoch", "an epoch (median)"),
            ("between_epochs", "validation, checkpoints and waiting between epochs"),
            ("attacks", "attacks"),
            ("shadow", "the shadow model, which trials share"),
            ("generate", "generation"),
            ("evaluate", "evaluation without attacks"),
            ("total", "the trial, the sum of its parts without the shadow model"),
        )
    ),
    public(
        name="utterances_per_second",
        label="training utterances per second in the last epoch",
        better="higher",
        per_epoch=True,
    ),
    *(
        public_count(name=name, label=label, per_epoch=True)
        for name, label in (
            ("epochs_done", "finished epochs"),
            ("epochs", "planned epochs"),
        )
    ),
    *(
        public_count(
            name=f"best_epoch{stage and f'_{stage}'}",
            label=f"epoch whose weights are kept{stage and f', of {stage}'}",
        )
        for stage in ("", "parses", "utterances")
    ),
    Figure(
        name="duplicates_dropped", label="duplicate records left out", written="count"
    ),
)


@dataclass(frozen=True, kw_only=True)
class EpochReport:
    """One finished epoch. `epochs_done` counts from 1; `seconds` is wall-clock of this
    epoch.

    `metrics` has plain floats: validation_ser, validation_intent_accuracy, train_loss,
    clip_fraction, epsilon (spent so far), epsilon_paper, noise_multiplier, ...
    """

    epochs_done: int
    seconds: float
    metrics: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """The result of a finished (or stopped) trial: numbers, and reasons where one is
    missing.
    """

    trial_id: str
    epochs_done: int
    stopped_early: bool
    metrics: dict[str, float | None]
    privacy: PrivacyCard | None  # None where no epoch was trained
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
