"""Estimated duration of a trial, from similar trials that were run or measured on this machine."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sweep.store import sweeps as store
from sweep.store.status import TrialStatus
from trainables.config import TrialConfig
from trainables.errors import InvalidData
from trainables.system.footprint import Footprint

_OF_TRAINING = ("expected_batch_size", "physical_batch_size", "precision")
_OF_PRIVACY = ("unit", "microbatch_size")


def estimator(
    home: Path, *, known: Callable[[TrialConfig], Footprint | None] = lambda config: None
) -> Callable[[TrialConfig, int], float | None]:
    """`seconds_of(config, steps)` from the median time of a step in finished trials of the same
    kind, overhead included; else from a measured footprint; else None.
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
        if ran is not None:
            return steps * statistics.median(ran)
        measured = known(config)
        if measured is None:
            return None
        return measured.seconds(steps=steps, epochs=config.training.epochs)

    return seconds_of


def kind_of(config: dict[str, Any]) -> str:
    """A key that is equal for trials whose steps cost the same."""
    parts = [config[name] for name in ("engine", "data", "model")]
    parts += [config["training"].get(name) for name in _OF_TRAINING]
    parts += [config["privacy"].get(name) for name in _OF_PRIVACY]
    if "synthesis" in config:
        parts.append(config["synthesis"])
    return json.dumps(parts, sort_keys=True)
