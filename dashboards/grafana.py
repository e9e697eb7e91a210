"""Grafana's dashboard of a running sweep, made from panels, and the files that go with it.

They are kept in `provisioning/`, which also holds Prometheus' scrape config and a compose file for
Docker users; a test says when the dashboard there is old, and `sweep ui --write-dashboards DIR`
writes them all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dashboards import palette
from dashboards.live_metrics import metrics
from dashboards.panels import PANELS, Kind, Panel, Query

UID = "dp-nlu-sweep"
PROVISIONED = Path(__file__).parent / "provisioning"
DASHBOARD = "grafana/dashboards/sweep.json"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_DISCOVERY = "/tmp/ray/prom_metrics_service_discovery.json"
_SCHEMA = 39  # of Grafana 11 and later


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana reads it."""
    return {
        "uid": UID,
        "title": "Sweep: error, epsilon, throughput",
        "tags": ["dp-nlu-sweep"],
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": [_datasource(), _sweep()]},
        "panels": [_panel(panel, number) for number, panel in enumerate(PANELS, start=1)],
    }


def files() -> dict[str, str]:
    """Every provisioning file by its path: the dashboard made now, the others as they are kept."""
    kept = [path for path in sorted(PROVISIONED.rglob("*")) if path.is_file()]
    texts = {str(path.relative_to(PROVISIONED)): path.read_text("utf-8") for path in kept}
    return {**texts, DASHBOARD: json.dumps(dashboard(), indent=1) + "\n"}


def prometheus_config(*, discovery: Path) -> str:
    """Prometheus' config with another list of what to scrape than the one that Ray keeps."""
    kept = (PROVISIONED / "prometheus.yml").read_text("utf-8")
    return kept.replace(_DISCOVERY, str(discovery))


def write(folder: Path) -> list[Path]:
    """Write the files into a folder; the paths that were written."""
    written = []
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    custom: dict[str, Any] = {}
    if panel.kind == "timeseries":
        custom = {"lineWidth": 2, "fillOpacity": 0, "showPoints": "auto", "spanNulls": True}
    if panel.log:
        custom["scaleDistribution"] = {"type": "log", "log": 10}
    defaults: dict[str, Any] = {"unit": panel.unit, "custom": custom}
    if panel.low is not None:
        defaults["min"] = panel.low
    if panel.high is not None:
        defaults["max"] = panel.high
    made: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": {"x": panel.x, "y": panel.y, "w": panel.width, "h": panel.height},
        "targets": [_target(query, place) for place, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _OPTIONS[panel.kind],
    }
    if panel.kind == "xychart":
        # Both answers hold one row a trial: joined by it, one is x and the other y.
        made["transformations"] = [
            {"id": "joinByField", "options": {"byField": "trial", "mode": "inner"}},
        ]
        made["targets"] = [{**target, "format": "table"} for target in made["targets"]]
    return made


def _target(query: Query, place: int) -> dict[str, Any]:
    return {
        "refId": chr(ord("A") + place),
        "datasource": _SOURCE,
        "expr": query.expression,
        "legendFormat": query.legend,
        "instant": query.instant,
        "range": not query.instant,
    }


def _datasource() -> dict[str, Any]:
    return {
        "name": "datasource",
        "type": "datasource",
        "query": "prometheus",
        "label": "Prometheus",
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "current": {},
        "options": [],
        "refresh": 1,
    }


def _sweep() -> dict[str, Any]:
    question = f"label_values({metrics()['sweep_trials'].exposed}, sweep)"
    return {
        "name": "sweep",
        "type": "query",
        "label": "Sweep",
        "datasource": _SOURCE,
        "definition": question,
        "query": {"query": question, "refId": "sweeps"},
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "hide": 0,
        "refresh": 2,
        "sort": 1,
        "current": {"text": ["All"], "value": ["$__all"]},
        "options": [],
    }


_REDUCED = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_OPTIONS: dict[Kind, dict[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "table", "placement": "right", "calcs": ["lastNotNull"]},
        "tooltip": {"mode": "multi", "sort": "asc"},
    },
    "stat": {"reduceOptions": _REDUCED, "colorMode": "value", "graphMode": "area"},
    "bargauge": {
        "reduceOptions": _REDUCED,
        "orientation": "horizontal",
        "displayMode": "basic",
        "valueMode": "color",
    },
    "xychart": {
        "mapping": "manual",
        "legend": {"showLegend": False, "displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "single", "sort": "none"},
        "series": [
            {
                "x": {"matcher": {"id": "byName", "options": "Value #A"}},
                "y": {"matcher": {"id": "byName", "options": "Value #B"}},
                "color": {"fixed": palette.ACCENT},
            }
        ],
    },
}
