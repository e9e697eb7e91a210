"""The data of a trial for a tracker: figures, settings and words, for one audience. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sweep.store.files import number
from sweep.store.plans import PlannedTrial, noise_at
from sweep.store.sweeps import TrialRecord
from sweep.store.trial_names import setting
from sweep.tracking.text import flat, metric_key, params_of

Audience = Literal["curator", "public"]
# A service gets the name and the split of a corpus, no paths and sizes.
_PUBLIC_DATA = ("data.name", "data.split")
_WORD = re.compile(r"[A-Za-z0-9_.:+-]*")


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """Figures after so many epochs (`step`), at `when` (seconds since the Unix epoch)."""

    step: int
    when: float
    figures: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class TrialFacts:
    """A trial in its state on disk. `final` is empty until it has finished; `infinite` names
    figures without a finite value.
    """

    sweep: str
    sweep_id: str
    trial: str
    name: str
    engine: str
    status: str
    is_over: bool
    params: Mapping[str, str | int | float | bool]
    epochs: tuple[Epoch, ...]
    final: Mapping[str, float]
    infinite: tuple[str, ...]

    @property
    def state(self) -> str:
        """A key that changes with anything that a tracker shows beside the epochs."""
        return f"{self.status} {sorted(self.final.items())} {self.infinite}"


def facts_of(
    record: TrialRecord,
    rows: list[dict[str, Any]],
    *,
    sweep: str,
    sweep_id: str,
    audience: Audience,
) -> TrialFacts:
    """The facts of a record and its epochs for the audience."""
    plan = record.plan
    seen = {name for row in rows for name in row["metrics"]}
    final = record.metrics if record.status.is_finished else {}
    return TrialFacts(
        sweep=sweep,
        sweep_id=sweep_id,
        trial=plan.id,
        name=_name(plan, audience),
        engine=plan.engine,
        status=record.status.value,
        is_over=record.status.is_over,
        params=_params(plan, audience),
        epochs=tuple(_epoch(plan, row, audience) for row in rows),
        # A final figure of the same name as an epoch's is of the best epoch.
        final=_figures(
            plan,
            {f"best_{name}" if name in seen else name: v for name, v in final.items()},
            audience,
        ),
        infinite=tuple(
            sorted(
                metric_key(name)
                for name, value in final.items()
                if value is not None and math.isinf(value) and _may_have(plan, name, audience)
            )
        ),
    )


def _epoch(plan: PlannedTrial, row: Mapping[str, Any], audience: Audience) -> Epoch:
    step = int(row["epochs_done"])
    known = {**row["metrics"], **noise_at(plan, step), "epoch_seconds": row["seconds"]}
    return Epoch(step=step, when=float(row["time"]), figures=_figures(plan, known, audience))


def _figures(
    plan: PlannedTrial, metrics: Mapping[str, Any], audience: Audience
) -> dict[str, float]:
    return {
        metric_key(name): value
        for name, given in metrics.items()
        if _may_have(plan, name, audience)
        and (value := number(given)) is not None
        and math.isfinite(value)
    }


def _may_have(plan: PlannedTrial, name: str, audience: Audience) -> bool:
    if audience == "curator":
        return True
    return metric_key(name) == name and not plan.reveals_count(name)


def _params(plan: PlannedTrial, audience: Audience) -> dict[str, str | int | float | bool]:
    found = params_of(plan)
    if audience == "public":
        found = {name: value for name, value in found.items() if _is_public_param(name, value)}
    return {
        name: value if isinstance(value, str | int | float | bool) else str(value)
        for name, value in found.items()
    }


def _name(plan: PlannedTrial, audience: Audience) -> str:
    """The trial's name; for the public with those axes alone whose fields it may have."""
    if audience == "curator":
        return plan.name
    axes = (
        setting(path, value)
        for path, value in plan.values.items()
        if all(_is_public_param(name, part) for name, part in flat({path: value}))
    )
    return ", ".join((plan.variant, *axes))


def _is_public_param(path: str, value: Any) -> bool:
    """Whether a field is a training setting, without paths or sizes of the data."""
    if path.startswith("data."):
        return path in _PUBLIC_DATA
    return not isinstance(value, str) or _WORD.fullmatch(value) is not None
