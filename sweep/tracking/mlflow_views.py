"""Prepared views of a sweep in MLflow's pages, kept as tags of the experiment. Pure.

MLflow keeps a saved view as the experiment's tag `mlflow.sharedViewState.<key>`: a JSON envelope
around the state of its runs page, listed under "Views" and opened by `viewStateShareKey=<key>`
in the address. Child runs are folded away on that page, so each view filters for a sweep's trials,
which are then shown flat, with their metrics as columns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sweep.tracking.text import NUMBER, grouped_key, metric_key
from trainables import goals
from trainables.figures import EPSILON, EPSILON_PAPER, LEAKAGE

TAG = "mlflow.sharedViewState."
_SER, _AUC = (
    grouped_key(metric_key(name)) for name in (goals.headline(goals.default_task()), LEAKAGE)
)
_VALIDATED = grouped_key(goals.quality(goals.default_task())[0])
# Columns in order of importance; params of trials come after the figures.
COLUMNS = (
    f"metrics.`{_SER}`",
    f"metrics.`{_AUC}`",
    *(f"metrics.`{grouped_key(name)}`" for name in (EPSILON, EPSILON_PAPER)),
    "params.`C`",
    "params.`z0`",
    "params.`decay`",
    "params.`tau`",
    f"metrics.`{grouped_key('seconds_epoch')}`",
    "tags.`engine`",
    "tags.`status`",
)
_BY_EPOCH = (
    (_VALIDATED, "Validation SER by epoch", "linear"),
    (grouped_key("epsilon_spent"), "epsilon spent by epoch", "log"),
    (grouped_key("noise_multiplier"), "Noise multiplier by epoch", "log"),
    (metric_key("clip_fraction"), "Clip fraction by epoch (curator only)", "linear"),
)
_SETTINGS = ("C", "z0", "tau")
_LOG = grouped_key("log10_epsilon")
_BEST = grouped_key(f"best_{goals.quality(goals.default_task())[0]}")  # of the epoch that was kept


@dataclass(frozen=True, kw_only=True)
class View:
    """A saved view: `key` in addresses, `name` in MLflow's list, `mode` table or charts."""

    key: str
    name: str
    mode: str
    state: Mapping[str, Any]

    def tag(self, *, created: float) -> tuple[str, str]:
        """Key and value of the experiment's tag; `created` in seconds since the Unix epoch."""
        stamp = int(created * 1000)
        envelope = {
            "name": self.name,
            "createdAt": stamp,
            "updatedAt": stamp,
            "state": json.dumps(self.state, separators=(",", ":")),
        }
        return f"{TAG}{self.key}", json.dumps(envelope, separators=(",", ":"))

    def address(self, server: str, experiment_id: str) -> str:
        """The address of the view at a server."""
        return (
            f"{server}/#/experiments/{experiment_id}/runs"
            f"?workflowType=machine_learning&compareRunsMode={self.mode}"
            f"&viewStateShareKey={self.key}"
        )


def views(
    sweep: str, sweep_id: str, *, importance: Mapping[str, float] | None = None
) -> tuple[View, ...]:
    """The views of a sweep: table of trials, curves by epoch, settings against results.

    `importance` has the share of each setting in what moved the error, where that is known.
    """
    mine = f"tags.sweep_id = '{sweep_id}' and tags.trial != ''"
    facets = {
        "searchFilter": mine,
        "orderByKey": f"metrics.`{_SER}`",
        "orderByAsc": True,
        "selectedColumns": list(COLUMNS),
        "columnOrder": list(COLUMNS),
        "runsHiddenMode": "FIRST_20_RUNS",
    }
    section = _id(sweep_id, "section")
    compared = _comparisons(sweep_id, section)
    return (
        View(key=_id(sweep_id, "trials"), name=f"{sweep}: trials", mode="TABLE", state=facets),
        View(
            key=_id(sweep_id, "epochs"),
            name=f"{sweep}: epoch by epoch",
            mode="CHART",
            state=facets
            | _charts("SER, epsilon and noise by epoch", section, _curves(sweep_id, section)),
        ),
        View(
            key=_id(sweep_id, "settings"),
            name=f"{sweep}: C, z0, tau against SER and leakage",
            mode="CHART",
            state=facets | _charts(_title(importance or {}), section, compared),
        ),
    )


def _curves(sweep_id: str, section: str) -> list[dict[str, Any]]:
    return [
        {
            **_card("LINE", _id(sweep_id, metric), section, title),
            "metricKey": metric,
            "selectedMetricKeys": [metric],
            "scaleType": scale,
            "xAxisKey": "step",
            "useGlobalXaxisKey": True,
            "lineSmoothness": 0,
            "yAxisKey": "metric",
            "yAxisExpressions": [],
            "range": {},
        }
        for metric, title, scale in _BY_EPOCH
    ]


def _comparisons(sweep_id: str, section: str) -> list[dict[str, Any]]:
    def scatter(name: str, title: str, x: str, y: str) -> dict[str, Any]:
        return {
            **_card("SCATTER", _id(sweep_id, name), section, title),
            "xaxis": {"key": x, "type": "METRIC"},
            "yaxis": {"key": y, "type": "METRIC"},
            "runsCountToCompare": 100,
        }

    return [
        {
            **_card("PARALLEL", _id(sweep_id, "parallel"), section, "C, z0, tau, SER, leakage"),
            "selectedParams": list(_SETTINGS),
            "selectedMetrics": [_SER, _AUC],
            "showAllRuns": True,
        },
        scatter("history", "History: validation SER by number of the trial", NUMBER, _BEST),
        scatter("ser", "SER over log10 epsilon", _LOG, _SER),
        scatter("auc", "Leakage over log10 epsilon (curator only)", _LOG, _AUC),
    ]


def _title(importance: Mapping[str, float]) -> str:
    """Of the settings' charts: what mattered, most first, as a long title is cut off. MLflow shows
    no other words of ours there.
    """
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in importance.items())
    return f"{shares} mattered" if shares else "Settings against results"


def _card(kind: str, uuid: str, section: str, title: str) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": uuid,
        "metricSectionId": section,
        "displayName": title,
        "isGenerated": False,
        "deleted": False,
        "runsCountToCompare": 20,
    }


def _charts(title: str, section: str, cards: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The chart page's state: these charts unfolded, MLflow's automatic sections folded."""
    own = {"uuid": section, "name": title, "display": True, "isReordered": True, "columns": 2}
    others = ("curator_only", "Model metrics", "System metrics")
    folded = [
        {"uuid": f"{section}{place}", "name": name, "display": False, "isReordered": False}
        for place, name in enumerate(others)
    ]
    generated = [False, *(True for _ in others)]
    sections = [
        {**each, "deleted": False, "isGenerated": auto}
        for each, auto in zip([own, *folded], generated, strict=True)
    ]
    return {
        "compareRunCharts": list(cards),
        "compareRunSections": sections,
        "isAccordionReordered": True,  # this section first, not in alphabetical order
    }


def _id(*words: str) -> str:
    return hashlib.sha256("/".join(words).encode()).hexdigest()[:20]
