"""A real Ray for the tests of a module, and what it shows Prometheus of its metrics."""

from __future__ import annotations

import importlib
import re
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from dashboards.live_metrics import metrics
from sweep.runtime.events import RunSettings
from sweep.runtime.on_ray.session import session

_LINE = re.compile(r"ray_(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@contextmanager
def own_ray(cpus: int = 1) -> Iterator[None]:
    """The cluster of a sweep, which the sweeps of the block share; it serves metrics at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_metrics_report_interval_ms", "100")
        with session(RunSettings(cpus=cpus, dashboard=False)):
            _served()  # its agent loses what is recorded before it is up
            yield


def recorded(sweep: str) -> dict[str, dict[tuple[str, ...], float]]:
    """The values that Ray serves of a sweep, by the metric's name and its labels in their order."""
    # A busy agent serves a report before it has read it to its end, and forgets the one before.
    text = "\n".join([_served(), _served()])
    own = {metric.name: metric.labels for metric in metrics().values()}
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for name, written, value in _LINE.findall(text):
        labels = {key: re.sub(r"\\(.)", r"\1", text) for key, text in _LABEL.findall(written)}
        if name in own and labels["sweep"] == sweep:
            found.setdefault(name, {})[tuple(labels[key] for key in own[name])] = float(value)
    return found


def _served() -> str:
    """What Ray serves once it has all that was recorded until now."""
    last = uuid.uuid4().hex
    gauge = importlib.import_module("ray.util.metrics").Gauge("last", tag_keys=("mark",))
    [node] = importlib.import_module("ray").nodes()
    deadline, text = time.monotonic() + 120, ""
    while last not in text:
        assert time.monotonic() < deadline, text[-2_000:]
        gauge.set(1, {"mark": last})
        time.sleep(0.1)
        with suppress(OSError):
            address = f"http://127.0.0.1:{node['MetricsExportPort']}/metrics"
            with urllib.request.urlopen(address, timeout=10) as answer:
                text = answer.read().decode()
    return text
