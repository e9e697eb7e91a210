"""MLflow's own page in a real Chromium: a sweep's prepared view lists its trials with the columns
that people need, and the report's numbers are those of MLflow's store.
"""

from __future__ import annotations

import importlib
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dashboards import report
from sweep.results.report_data import gather
from sweep.serve.places import looking
from sweep.tracking.text import grouped_key, metric_key, run_name
from tests.dashboards.browser import MISSING, browser
from tests.sweep.commands.test_report_command import Cells
from tests.sweep.sweeps import run_toy, settings_in

pytestmark = [
    pytest.mark.slow,  # MLflow's server, a browser
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
    # MLflow's own imports and SQLAlchemy's unclosed pool.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_prepared_view_shows_trials_and_the_report_equals_the_store(tmp_path: Path) -> None:
    folder = run_toy(tmp_path).folder
    settings = settings_in(tmp_path)
    ports = {name: _free_port() for name in ("mlflow", "prometheus", "grafana")}
    with (
        looking(settings, ports=ports) as found,
        browser(tmp_path / "profile") as window,
    ):
        assert list(found.views) == ["toy"]
        window.resize(1900, 1000)
        window.open(found.views["toy"]["trials"])
        names = [run_name(record.plan) for record in folder.records()]
        cells = "document.body.innerText"
        for name in names:
            window.wait_for(f"{cells}.includes({name!r})", seconds=120)
        headers = window.wait_for(
            "[...document.querySelectorAll('[role=columnheader]')].map(e => e.innerText.trim())"
            ".filter(t => t).length > 5 && "
            "[...document.querySelectorAll('[role=columnheader]')].map(e => e.innerText.trim())"
        )
        # What came out, then the paper's letters (the toy measures neither attack nor epsilon).
        titles = ("Run Name", "test/ser", "C", "z0", "decay", "tau")
        order = [headers.index(title) for title in titles]
        assert order == sorted(order)
        assert "3 matching runs" in window.run(f"return {cells}").replace("\n", " ")
        window.open(found.views["toy"]["epoch by epoch"])
        window.wait_for(f"{cells}.includes('SER, epsilon and noise')", seconds=120)

    client: Any = importlib.import_module("mlflow.tracking").MlflowClient(
        tracking_uri=settings.tracking_uri
    )
    experiment = client.get_experiment_by_name("sweeps")
    stored = {
        run.data.tags["trial"]: run.data.metrics
        for run in client.search_runs([experiment.experiment_id], filter_string="tags.trial != ''")
    }
    shown = Cells(report.html(gather(folder, epsilon_max=1e9))).found
    compared = 0
    for (trial, metric), value in shown.items():
        kept = stored[trial].get(grouped_key(metric_key(metric)))
        if kept is not None:
            assert kept == value, (trial, metric)
            compared += 1
    assert compared >= 3
