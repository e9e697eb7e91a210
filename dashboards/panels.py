"""What a person wants to see of a running sweep: panels, and what they ask Prometheus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dashboards.live_metrics import metrics

Kind = Literal["timeseries", "stat", "bargauge", "xychart"]
_CHOSEN = 'sweep=~"$sweep"'


@dataclass(frozen=True, kw_only=True)
class Query:
    """A PromQL expression; `legend` names its lines by labels in double braces."""

    expression: str
    legend: str = ""
    instant: bool = False


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One picture: where it stands on the grid of 24 columns, what it asks, in which unit."""

    title: str
    kind: Kind
    queries: tuple[Query, ...]
    x: int
    y: int
    width: int
    height: int
    description: str = ""
    unit: str = "none"
    log: bool = False
    low: float | None = None
    high: float | None = None


def _of(source: str, also: str = "") -> str:
    return f"{metrics()[source].exposed}{{{_CHOSEN}{also}}}"


def _last(source: str) -> str:
    """The newest value of the chosen time: Ray's agent shows a trial's figures only while they
    change.
    """
    return f"last_over_time({_of(source)}[$__range])"


_TRIAL = "{{name}}"
PANELS: tuple[Panel, ...] = (
    Panel(
        title="Trials",
        kind="bargauge",
        queries=(
            Query(expression=f"sum by (status) ({_of('sweep_trials')})", legend="{{status}}"),
        ),
        description="How many trials are in each state.",
        x=0,
        y=0,
        width=6,
        height=6,
    ),
    Panel(
        title="Failed trials",
        kind="stat",
        queries=(
            Query(
                expression="sum(" + _of("sweep_trials", ', status="failed"') + ")",
                legend="failed",
            ),
        ),
        description="`sweep show NAME` says why; `sweep resume NAME` tries them again.",
        x=6,
        y=0,
        width=4,
        height=6,
    ),
    Panel(
        title="Progress: epochs done of those planned",
        kind="bargauge",
        queries=(
            Query(
                expression=f"{_last('epochs_done')} / {_last('epochs')}",
                legend=_TRIAL,
                instant=True,
            ),
        ),
        unit="percentunit",
        low=0.0,
        high=1.0,
        x=10,
        y=0,
        width=14,
        height=6,
    ),
    Panel(
        title="Validation SER",
        kind="timeseries",
        queries=(Query(expression=_of("validation_ser"), legend=_TRIAL),),
        description="Semantic error rate; lower is better.",
        low=0.0,
        x=0,
        y=6,
        width=12,
        height=9,
    ),
    Panel(
        title="Budget burn-down: epsilon left of what was planned",
        kind="timeseries",
        queries=(
            Query(
                expression=f"1 - {_of('epsilon_spent')} / {_of('epsilon_planned')}", legend=_TRIAL
            ),
        ),
        description="The share of a trial's planned sound epsilon that is still unspent.",
        unit="percentunit",
        low=0.0,
        high=1.0,
        x=12,
        y=6,
        width=12,
        height=9,
    ),
    Panel(
        title="Epsilon spent",
        kind="timeseries",
        queries=(
            Query(expression=_of("epsilon_spent"), legend=f"{_TRIAL}"),
            Query(expression=_of("epsilon_paper_spent"), legend=f"{_TRIAL}, the paper's"),
        ),
        description="Sound epsilon, and the paper's figure, which guarantees nothing.",
        log=True,
        x=0,
        y=15,
        width=12,
        height=9,
    ),
    Panel(
        title="Frontier: SER against epsilon",
        kind="xychart",
        queries=(
            Query(expression=_last("epsilon_spent"), legend="epsilon", instant=True),
            Query(expression=_last("validation_ser"), legend="SER", instant=True),
        ),
        description="Each trial as it stands now. Down and left is better.",
        log=True,
        x=12,
        y=15,
        width=12,
        height=9,
    ),
    Panel(
        title="Throughput",
        kind="timeseries",
        queries=(Query(expression=_of("utterances_per_second"), legend=_TRIAL),),
        description="Training utterances a second, over the last epoch of each running trial.",
        unit="short",
        low=0.0,
        x=0,
        y=24,
        width=12,
        height=8,
    ),
    Panel(
        title="Seconds of an epoch",
        kind="timeseries",
        queries=(Query(expression=_of("epoch_seconds"), legend=_TRIAL),),
        unit="s",
        low=0.0,
        x=12,
        y=24,
        width=12,
        height=8,
    ),
    Panel(
        title="Clip fraction (curator only)",
        kind="timeseries",
        queries=(Query(expression=_of("clip_fraction"), legend=_TRIAL),),
        description="Computed from private gradients without noise: no epsilon covers it.",
        unit="percentunit",
        low=0.0,
        high=1.0,
        x=0,
        y=32,
        width=12,
        height=8,
    ),
    Panel(
        title="Gradient norm against noise norm (curator only)",
        kind="timeseries",
        queries=(
            Query(expression=_of("gradient_norm"), legend=f"{_TRIAL}, gradients"),
            Query(expression=_of("noise_norm"), legend=f"{_TRIAL}, noise"),
        ),
        description="Mean norm before clipping, and the expected norm of the noise in a mean"
        " gradient. The first is computed from private gradients without noise.",
        log=True,
        x=12,
        y=32,
        width=12,
        height=8,
    ),
)


def expressions() -> list[tuple[str, str]]:
    """Every panel's title and each expression, for any sweep and the last hour."""
    return [
        (panel.title, query.expression.replace("$sweep", ".*").replace("$__range", "1h"))
        for panel in PANELS
        for query in panel.queries
    ]
