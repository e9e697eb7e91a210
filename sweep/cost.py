"""How long a trial will take, from the steps of trials like it that have been run here."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path

from sweep import store
from trainables.config import TrialConfig
from trainables.errors import InvalidData


def estimator(home: Path) -> Callable[[TrialConfig, int], float | None]:
    """`seconds_of(config, steps)` by the median of what finished trials of the same engine, model,
    data and batch size took a step, everything around the steps included; None without any.
    """
    seconds: dict[str, list[float]] = {}
    for name in store.names(home):
        try:
            records = store.SweepFolder(home / name).records(running=False)
        except (InvalidData, TypeError, KeyError):
            continue  # of another version, or damaged: `sweep show` says so, an estimate need not
        for record in records:
            if record.status == "done" and record.plan.steps and record.seconds > 0:
                per_step = record.seconds / record.plan.steps
                seconds.setdefault(_kind(record.plan.config), []).append(per_step)

    def seconds_of(config: TrialConfig, steps: int) -> float | None:
        known = seconds.get(_kind(config.model_dump(mode="json")))
        return None if known is None else steps * statistics.median(known)

    return seconds_of


def _kind(config: dict[str, object]) -> str:
    training = config["training"]
    batch = training["expected_batch_size"] if isinstance(training, dict) else math.nan
    parts = [config["engine"], config["data"], config["model"], batch]
    return json.dumps(parts, sort_keys=True)
