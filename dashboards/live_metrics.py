"""Figures of a running sweep, by the names that Prometheus knows them by: what is recorded and what
panels ask for are one list.
"""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "ray_"  # what Ray puts before an application's metrics
TRIAL_LABELS = ("sweep", "trial", "name", "engine")
STATUS_LABELS = ("sweep", "status")
STATUSES = ("planned", "running", "done", "stopped", "failed", "refused")


@dataclass(frozen=True, kw_only=True)
class LiveMetric:
    """One gauge. `source` is the figure it shows, by its name in a trial's epochs or results; ""
    for one that is counted. What no epsilon covers is called `curator_...`.
    """

    name: str
    help: str
    source: str = ""
    labels: tuple[str, ...] = TRIAL_LABELS

    @property
    def exposed(self) -> str:
        """Its name in Prometheus.

        >>> METRICS["validation_ser"].exposed
        'ray_sweep_validation_ser'
        """
        return f"{PREFIX}{self.name}"


def _of_a_trial(source: str, help_text: str, *, curator: bool = False) -> LiveMetric:
    prefix = "curator_sweep_" if curator else "sweep_"
    words = f"{help_text} (for the curator of the data only)" if curator else help_text
    return LiveMetric(name=f"{prefix}{source}", help=words, source=source)


METRICS = {
    metric.source or metric.name: metric
    for metric in (
        _of_a_trial("epochs_done", "Epochs that have ended"),
        _of_a_trial("epochs", "Epochs that were planned"),
        _of_a_trial("validation_ser", "Semantic error rate on validation records"),
        _of_a_trial("ser", "Semantic error rate on test records, once the trial has ended"),
        _of_a_trial("epsilon_spent", "Sound epsilon spent so far"),
        _of_a_trial("epsilon_paper_spent", "Epsilon of the paper's formula so far; no guarantee"),
        _of_a_trial("epsilon_planned", "Sound epsilon of all planned epochs"),
        _of_a_trial("utterances_per_second", "Training utterances a second in the last epoch"),
        _of_a_trial("epoch_seconds", "Seconds of the last epoch"),
        _of_a_trial("noise_multiplier", "Noise multiplier of the last epoch"),
        _of_a_trial("noise_norm", "Expected norm of the noise in a mean gradient"),
        _of_a_trial("gradient_norm", "Mean norm of gradients before clipping", curator=True),
        _of_a_trial("clip_fraction", "Share of gradients that were clipped", curator=True),
        _of_a_trial("mia_shadow_auc", "AUC of the shadow attack", curator=True),
        LiveMetric(name="sweep_trials", help="Trials by status", labels=STATUS_LABELS),
    )
}
