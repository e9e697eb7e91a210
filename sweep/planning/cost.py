"""Estimated duration of a trial, from similar trials that were run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sweep.store import sweeps as store
from sweep.store.state import TrialStatus
from trainables.config import TrialConfig
from trainables.errors import InvalidData

_OF_TRAINING = ("expected_batch_size", "physical_batch_size", "precision")
_OF_PRIVACY = ("unit", "microbatch_size")


def estimator(home: Path) -> Callable[[TrialConfig, int], float | None]:
    """`seconds_of(config, steps)` from the median time of a step in finished trials of the same
    kind, overhead included; None without any.
    """
    seconds: dict[str, list[float]] = {}
    for name in store.names(home):
        try:
            records = store.SweepFolder(home / name).records(running=False)
        except (InvalidData, TypeError, KeyError):
            continue  # of another version, or damaged: `sweep show` reports it
        for record in records:
            if record.status is TrialStatus.DONE and record.plan.steps and record.seconds > 0:
                per_step = record.seconds / record.plan.steps
                seconds.setdefault(kind_of(record.plan.fields), []).append(per_step)

    def seconds_of(config: TrialConfig, steps: int) -> float | None:
        ran = seconds.get(kind_of(config.model_dump(mode="json")))
        return None if ran is None else steps * statistics.median(ran)

    return seconds_of


def kind_of(config: dict[str, Any]) -> str:
    """A key that is equal for trials whose steps cost the same."""
    parts = [config[name] for name in ("engine", "data", "model")]
    parts += [config["training"].get(name) for name in _OF_TRAINING]
    parts += [config["privacy"].get(name) for name in _OF_PRIVACY]
    if "synthesis" in config:
        parts.append(config["synthesis"])
    return json.dumps(parts, sort_keys=True)
