"""A real Ray for the tests of a module, and what it shows Prometheus of its metrics."""

import importlib
import re
import threading
import time
import urllib.request
import uuid
from contextlib import contextmanager, suppress

import pytest

from dashboards.live_metrics import metrics
from sweep.runtime.events import RunSettings
from sweep.runtime.ray_session import session

_LINE = re.compile(r"ray_(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_MARK = "recorded_until"


class OwnRay:
    """The cluster of a sweep, which all sweeps of its block share, and its metrics as
    Prometheus has them: Ray forgets a value five seconds after it was reported.
    """

    def __init__(self):
        self._own = {metric.name: metric.labels for metric in metrics().values()}
        self._own[_MARK] = ("mark",)
        self._seen = {}
        self.over = threading.Event()

    def recorded(self, sweep, record=lambda: None):
        """The last values of a sweep, by the metric's name and its labels in their
        order, once Ray has shown what `record` records: a busy machine may forget a
        report before it is asked.
        """
        gauge = importlib.import_module("ray.util.metrics").Gauge(
            _MARK, tag_keys=("mark",)
        )
        mark, deadline = uuid.uuid4().hex, time.monotonic() + 120
        while (_MARK, (mark,)) not in self._seen:
            assert time.monotonic() < deadline
            record()
            gauge.set(1, {"mark": mark})
            time.sleep(0.1)
        found = {}
        for (name, labels), value in list(self._seen.items()):
            if labels[0] == sweep:
                found.setdefault(name, {})[labels] = value
        return found

    def scrape(self):
        """Ask until the end of the block."""
        [node] = importlib.import_module("ray").nodes()
        while not self.over.wait(1.0):
            with suppress(OSError):
                address = f"http://127.0.0.1:{node['MetricsExportPort']}/metrics"
                with urllib.request.urlopen(address, timeout=10) as answer:
                    self._keep(answer.read().decode())

    def _keep(self, text):
        for name, written, value in _LINE.findall(text):
            if name in self._own:
                given = {
                    k: re.sub(r"\\(.)", r"\1", v) for k, v in _LABEL.findall(written)
                }
                self._seen[name, tuple(given[key] for key in self._own[name])] = float(
                    value
                )


@contextmanager
def own_ray():
    """A Ray of one CPU that shows a report for twice the interval: a busy machine asks
    rarely.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_metrics_report_interval_ms", "2500")
        patch.setenv("RAY_worker_niceness", "0")  # beside other tests
        patch.setenv(
            "REPORTER_UPDATE_INTERVAL_MS", "3600000"
        )  # of figures for Ray's dashboard
        with session(RunSettings(dashboard=False)):
            started = OwnRay()
            scraper = threading.Thread(target=started.scrape)
            scraper.start()
            try:
                started.recorded("")  # its agent loses what is recorded before it is up
                yield started
            finally:
                started.over.set()
                scraper.join()
