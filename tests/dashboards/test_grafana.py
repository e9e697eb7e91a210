"""Panels of Grafana ask for metrics that a sweep records, and a real Prometheus answers
each.
"""

import http.server
import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest
import yaml

from dashboards import grafana
from dashboards.live_metrics import STATUSES, TRIAL_LABELS, metrics

_PROMETHEUS = shutil.which("prometheus")
_GRID = 24


DASHBOARD = json.loads(grafana.DASHBOARD.read_text())


def expressions():
    """Every panel's title and each expression, for any sweep and the last hour."""
    return [
        (
            panel["title"],
            target["expr"].replace("$sweep", ".*").replace("$__range", "1h"),
        )
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    ]


def test_panels_ask_only_for_metrics_that_a_sweep_records():
    recorded = {f"ray_{metric.name}" for metric in metrics().values()}
    variables = DASHBOARD["templating"]["list"]
    questions = [
        (each["name"], each["definition"]) for each in variables if "definition" in each
    ]
    for title, expression in (*expressions(), *questions):
        names = set(re.findall(r"\b(ray_\w+)", expression))
        assert names, title
        assert names <= recorded, title


def test_every_panel_that_shows_private_figures_says_so():
    for panel in DASHBOARD["panels"]:
        private = any("curator_" in target["expr"] for target in panel["targets"])
        assert private == ("curator only" in panel["title"]), panel["title"]


def test_panels_lie_on_the_grid_without_overlap():
    cells = set()
    for panel in DASHBOARD["panels"]:
        x, y, width, height = (panel["gridPos"][key] for key in "xywh")
        assert x + width <= _GRID
        own = {(x + i, y + j) for i in range(width) for j in range(height)}
        assert not cells & own, panel["title"]
        cells |= own


def test_the_dashboard_has_what_grafana_needs():
    assert DASHBOARD["uid"] == "dp-nlu-sweep"
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(panels)))
    assert used - {"__range"} <= variables  # that one is Grafana's own
    for panel in panels:
        assert {
            "type",
            "title",
            "gridPos",
            "targets",
            "fieldConfig",
            "options",
        } <= panel.keys()
        assert len({target["refId"] for target in panel["targets"]}) == len(
            panel["targets"]
        )


class _Endpoint(http.server.BaseHTTPRequestHandler):
    """A sweep of two trials as Ray's agent shows one."""

    def do_GET(self):
        lines = []
        for metric in metrics().values():
            for trial in ("a", "b"):
                if metric.labels == TRIAL_LABELS:
                    # as of sweep.runtime.ray_metrics
                    name = rf"epsilon<=8 na\\xefve {trial}"
                    labels = f'sweep="s",trial="{trial}",name="{name}",engine="dp_sgd"'
                    lines.append(f"ray_{metric.name}{{{labels}}} 2.5")
        name = f"ray_{metrics()['sweep_trials'].name}"
        lines += [f'{name}{{sweep="s",status="{status}"}} 1' for status in STATUSES]
        body = ("\n".join(lines) + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Quiet."""


@pytest.fixture
def prometheus(tmp_path):
    """A real Prometheus that scrapes our endpoint, as the guide says for Ray's."""
    if _PROMETHEUS is None:
        pytest.skip("no prometheus on this machine (Debian: apt install prometheus)")
    endpoint = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Endpoint)
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    target = f"127.0.0.1:{endpoint.server_port}"
    scrape = {"job_name": "ray", "static_configs": [{"targets": [target]}]}
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [
            _PROMETHEUS,
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)
        endpoint.shutdown()
        endpoint.server_close()


def _ask(address, expression):
    question = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(
        f"{address}/api/v1/query?{question}", timeout=10
    ) as answer:
        document = json.load(answer)
    assert document["status"] == "success", document
    found = document["data"]["result"]
    return found


@pytest.mark.slow  # needs Debian's prometheus
def test_a_real_prometheus_answers_every_panel(prometheus):
    deadline = time.monotonic() + 90
    while True:
        try:
            if _ask(prometheus, f"ray_{metrics()['sweep_trials'].name}"):
                break
        except OSError:
            pass
        assert time.monotonic() < deadline, "Prometheus has scraped nothing in 90 s"
        time.sleep(0.5)
    counts = {
        title: len(_ask(prometheus, expression)) for title, expression in expressions()
    }
    assert counts.pop("Trials") == len(STATUSES)
    assert counts.pop("Failed trials") == 1
    assert set(counts.values()) == {2}, counts  # a line for each trial
    [left, _] = _ask(
        prometheus,
        dict(expressions())["Budget burn-down: epsilon left of what was planned"],
    )
    assert float(left["value"][1]) == 0.0  # 2.5 of 2.5 is spent
