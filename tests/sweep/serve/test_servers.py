"""Servers of results: ours end with their block, those of others are left alone."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from sweep.serve import ray_targets, servers
from sweep.serve.places import Places, looking
from sweep.settings import Settings
from sweep.store import sweeps as store
from sweep.store.plans import Plan
from sweep.tracking.mlflow_views import TAG, views
from tests.sweep.sweeps import settings_in, space_in
from trainables.errors import InvalidInput, TrialFailed


@contextmanager
def web_server(pages: dict[str, Any]) -> Iterator[int]:
    """A server with JSON `pages` by path, without their query; 404 for any other. Its port."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            self.send_response(404 if page is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(page).encode())

        def log_message(self, *args: object) -> None:
            """Nothing is printed."""

    server = HTTPServer((servers.HOST, 0), Pages)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def listening() -> Iterator[int]:
    """A port at which something listens and never answers."""
    with socket.create_server((servers.HOST, 0)) as server:
        port: int = server.getsockname()[1]
        yield port


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path)


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)


_EXPERIMENT = "/api/2.0/mlflow/experiments/get-by-name"


def test_an_answer_is_any_page_and_silence_is_none(silent_port: int) -> None:
    with web_server({"/here": 1}) as port:
        assert servers.is_open(port)
        assert servers.answers(f"http://{servers.HOST}:{port}/here")
        assert servers.answers(f"http://{servers.HOST}:{port}/missing"), "404 is an answer"
    assert not servers.is_open(silent_port)
    assert not servers.answers(f"http://{servers.HOST}:{silent_port}/here")


def test_servers_of_this_machine_are_not_asked_through_a_proxy(
    silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would look for them on its own machine."""
    monkeypatch.setattr("urllib.request._opener", None)  # it keeps what it read at its first use
    pages = {_EXPERIMENT: {"experiment": {"experiment_id": "4"}}}
    monkeypatch.setenv("http_proxy", f"http://{servers.HOST}:{silent_port}")
    with web_server(pages) as port:
        address = f"http://{servers.HOST}:{port}"
        assert servers.answers(address)
        assert servers.mlflow_experiment(address) == {"experiment_id": "4"}


def test_a_tracking_server_of_the_settings_is_used_as_it_is(settings: Settings) -> None:
    remote = replace(settings, tracking_uri="http://mlflow.example:5000")
    with servers.mlflow_server(remote, port=1) as address:
        assert address == "http://mlflow.example:5000"
    assert not settings.home.exists()


def test_a_server_of_the_same_home_is_shared_and_any_other_is_in_the_way(
    settings: Settings,
) -> None:
    mine = (settings.home / "mlartifacts").as_uri()
    pages = {_EXPERIMENT: {"experiment": {"artifact_location": mine}}}
    with web_server(pages) as port, servers.mlflow_server(settings, port=port) as address:
        assert address == f"http://{servers.HOST}:{port}"
    for others in ({_EXPERIMENT: {"experiment": {"artifact_location": "file:///x"}}}, {}):
        with (
            web_server(others) as port,
            pytest.raises(InvalidInput, match=f"^port {port} is taken: expected --port"),
            servers.mlflow_server(settings, port=port),
        ):
            pass


@pytest.mark.parametrize("page", [None, {}, {"experiment": None}, [1], "text", {"experiment": 3}])
def test_what_is_no_answer_of_mlflow_has_no_experiment(page: Any) -> None:
    with web_server({_EXPERIMENT: page}) as port:
        assert servers.mlflow_experiment(f"http://{servers.HOST}:{port}") is None


@pytest.mark.usefixtures("nothing_installed")
def test_what_is_not_installed_says_how_to_do_without(settings: Settings, silent_port: int) -> None:
    with (
        pytest.raises(InvalidInput, match=r"not installed .*apt install prometheus"),
        servers.prometheus_server(settings, port=silent_port),
    ):
        pass
    with (
        pytest.raises(InvalidInput, match=r"not installed .*--write-dashboards DIR"),
        servers.grafana_server(settings, port=silent_port, prometheus="http://x"),
    ):
        pass
    assert not settings.home.exists()


def test_a_taken_port_is_named_with_its_option(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(servers, "answers", lambda url: False)
    with listening() as port:
        for option, server in (
            ("--prometheus-port", servers.prometheus_server(settings, port=port)),
            ("--grafana-port", servers.grafana_server(settings, port=port, prometheus="x")),
        ):
            with pytest.raises(InvalidInput, match=f"^port {port} is taken: expected {option}"):
                server.__enter__()
    assert not settings.home.exists()


@pytest.mark.usefixtures("nothing_installed")
def test_another_web_server_is_not_taken_for_prometheus(settings: Settings) -> None:
    with (
        web_server({"/": "of something else"}) as port,
        pytest.raises(InvalidInput, match=f"port {port} is taken: expected --prometheus-port"),
        servers.prometheus_server(settings, port=port),
    ):
        pytest.fail("it was taken for Prometheus")


def test_a_server_that_speaks_something_else_is_in_the_way(settings: Settings) -> None:
    def speak(server: socket.socket) -> None:
        for _ in range(2):
            caller, _ = server.accept()  # the first looks whether the port is open
            # A caller that closes without reading resets the connection.
            with caller, contextlib.suppress(ConnectionError):
                caller.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                caller.recv(1_000)

    for option, serve in (
        ("--port", servers.mlflow_server),
        ("--prometheus-port", servers.prometheus_server),
    ):
        with socket.create_server((servers.HOST, 0)) as server:
            threading.Thread(target=speak, args=(server,), daemon=True).start()
            port = server.getsockname()[1]
            with (
                pytest.raises(InvalidInput, match=f"port {port} is taken: expected {option} "),
                serve(settings, port=port),
            ):
                pytest.fail("it was used")


def test_a_prometheus_that_runs_already_is_shared(settings: Settings) -> None:
    with web_server({"/-/ready": 1}) as port:
        with servers.prometheus_server(settings, port=port) as address:
            assert address == f"http://{servers.HOST}:{port}"
        assert servers.is_open(port), "it is not ours to end"


_FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_program_ends_with_its_block_and_its_children_with_it(settings: Settings) -> None:
    """Whatever ends the block; its output is in a log of the home."""

    def interrupt(log: Path) -> None:
        until = time.monotonic() + 60
        while not log.read_text().endswith("\n") and time.monotonic() < until:
            time.sleep(0.02)
        raise KeyboardInterrupt

    command = [sys.executable, "-c", _FAMILY]
    with (
        pytest.raises(KeyboardInterrupt),
        servers._process("family", command, settings.home, {}) as (server, log),
    ):
        interrupt(log)
    assert log == settings.home / "family.log"
    assert server.returncode is not None
    child, until = int(log.read_text()), time.monotonic() + 60
    while not _has_ended(child) and time.monotonic() < until:
        time.sleep(0.02)
    assert _has_ended(child)


def _has_ended(process: int) -> bool:
    """Also where its new parent has not looked at it yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("program", ["raise SystemExit(3)", "import time; time.sleep(600)"])
def test_a_server_that_ends_or_stays_silent_names_its_log(
    settings: Settings, silent_port: int, program: str
) -> None:
    started = time.monotonic()
    command = [sys.executable, "-c", program]
    url = f"http://{servers.HOST}:{silent_port}"
    log = settings.home / "quiet.log"
    with (
        servers._process("quiet", command, settings.home, {}) as (server, _),
        pytest.raises(TrialFailed, match=f"^Quiet did not start; its log is {log}$"),
    ):
        servers._until_it_answers(server, url, log=log, wait=0.5, what="Quiet")
    assert time.monotonic() - started < 60


# ---- Ray's targets


def sessions(folder: Path, **lists: Any) -> Path:
    """The folder of Ray's sessions, each with the list that it is given (text as it is)."""
    for name, groups in lists.items():
        place = folder / f"session_{name}"
        place.mkdir(parents=True, exist_ok=True)
        text = groups if isinstance(groups, str) else json.dumps(groups)
        (place / "prom_metrics_service_discovery.json").write_text(text)
    return folder


def test_agents_of_all_sessions_that_listen_are_scraped(tmp_path: Path, silent_port: int) -> None:
    """An ended session has left its list, and a new one has a damaged or no list yet."""
    with listening() as one, listening() as two:
        mine, others = (f"{servers.HOST}:{port}" for port in (one, two))
        folder = sessions(
            tmp_path,
            a=[{"targets": [mine, f"{servers.HOST}:{silent_port}"]}],
            b=[{"targets": [others]}, {"targets": [mine]}],
            c="[",
            d=[{"labels": {}}],
            e=[{"targets": ["nonsense", "host:port"]}],
            f=3,
        )
        (folder / "session_g").mkdir()
        assert ray_targets.targets(folder) == sorted([mine, others])
    assert ray_targets.targets(tmp_path / "none") == []


def test_the_list_follows_the_sessions_until_the_block_ends(tmp_path: Path) -> None:
    path, folder = tmp_path / "targets.json", tmp_path / "ray"
    with listening() as port:
        with ray_targets.follow_targets(path, folder=folder, seconds=0.02):
            assert json.loads(path.read_text()) == [{"labels": {"job": "ray"}, "targets": []}]
            sessions(folder, new=[{"targets": [f"{servers.HOST}:{port}"]}])
            until = time.monotonic() + 60
            while str(port) not in path.read_text() and time.monotonic() < until:
                time.sleep(0.02)
            (found,) = json.loads(path.read_text())
            assert found["targets"] == [f"{servers.HOST}:{port}"]
        (folder / "session_new" / "prom_metrics_service_discovery.json").unlink()
        before = path.read_text()
        time.sleep(0.1)
        assert path.read_text() == before


def test_rays_folder_is_where_ray_puts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", "/scratch")
    assert ray_targets.ray_folder() == Path("/scratch/ray")
    monkeypatch.delenv("RAY_TMPDIR")
    assert ray_targets.ray_folder().name == "ray"


# ---- all of them


@pytest.mark.usefixtures("nothing_installed")
def test_a_missing_server_is_a_line_and_stops_no_other(
    settings: Settings, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "RAY_DASHBOARD_PORTS", range(0))
    ports = dict.fromkeys(("mlflow", "prometheus", "grafana"), silent_port)
    with web_server({}) as port:
        remote = replace(settings, tracking_uri=f"http://{servers.HOST}:{port}")
        with looking(remote, ports=ports) as places:
            assert places.mlflow == remote.tracking_uri
            assert set(places.missing) == {"prometheus", "grafana"}
            assert (places.prometheus, places.grafana, places.ray) == (None, None, [])
        with looking(remote, ports=ports, stop=lambda: True) as places:
            assert places.missing == {}, "nothing more is started after a stop"


@pytest.mark.usefixtures("nothing_installed")
def test_the_views_of_the_newest_sweeps_are_linked_where_the_store_has_them(
    settings: Settings, tmp_path: Path, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "RAY_DASHBOARD_PORTS", range(0))
    space, tags = space_in(tmp_path), []
    for number in range(8):
        made = space.model_copy(update={"name": f"s{number}"})
        plan = Plan(name=made.name, trials=())
        folder = store.create(settings.home, made, plan, about={"created": float(number)})
        if number != 6:  # which the store has not been given
            first, *_ = views(folder.name, folder.about()["id"])
            tags.append({"key": f"{TAG}{first.key}", "value": "{}"})
    pages = {_EXPERIMENT: {"experiment": {"experiment_id": "4", "tags": tags}}}
    with web_server(pages) as port:
        remote = replace(settings, tracking_uri=f"http://{servers.HOST}:{port}")
        ports = dict.fromkeys(("mlflow", "prometheus", "grafana"), silent_port)
        with looking(remote, ports=ports) as places:
            found = places.views
    assert list(found) == ["s7", "s5", "s4", "s3", "s2"]
    for addresses in found.values():
        (address,) = addresses.values()
        assert address.startswith(f"{remote.tracking_uri}/#/experiments/4/runs?")


def test_the_password_of_a_store_is_in_no_list_of_processes(
    settings: Settings, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every user of the machine can read the arguments of a process, but not its environment."""
    started: list[tuple[list[str], dict[str, str]]] = []

    @contextmanager
    def process(
        name: str, command: list[str], home: Path, environment: dict[str, str]
    ) -> Iterator[tuple[None, Path]]:
        started.append((command, environment))
        yield None, home

    monkeypatch.setattr(servers, "_process", process)
    monkeypatch.setattr(servers, "_until_it_answers", lambda *args, **named: None)
    uri = "postgresql://ann:s3cret@127.0.0.1/runs"
    with servers.mlflow_server(replace(settings, tracking_uri=uri), port=silent_port):
        ((command, environment),) = started
    assert "s3cret" not in " ".join(command)
    assert environment["MLFLOW_BACKEND_STORE_URI"] == uri


@pytest.mark.usefixtures("nothing_installed")
def test_a_damaged_sweep_costs_its_own_links_alone(
    settings: Settings, tmp_path: Path, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "RAY_DASHBOARD_PORTS", range(0))
    tags = []
    for name in ("good", "damaged"):
        space = space_in(tmp_path).model_copy(update={"name": name})
        folder = store.create(settings.home, space, Plan(name=name, trials=()), about={})
        first, *_ = views(name, folder.about()["id"])
        tags.append({"key": f"{TAG}{first.key}", "value": "{}"})
    (settings.home / "damaged" / "sweep.json").write_text("{")
    pages = {_EXPERIMENT: {"experiment": {"experiment_id": "4", "tags": tags}}}
    with web_server(pages) as port:
        remote = replace(settings, tracking_uri=f"http://{servers.HOST}:{port}")
        ports = dict.fromkeys(("mlflow", "prometheus", "grafana"), silent_port)
        with looking(remote, ports=ports) as places:
            assert list(places.views) == ["good"]


def test_people_and_programs_get_the_same_addresses() -> None:
    places = Places(
        mlflow="http://m",
        ray=["http://r1", "http://r2"],
        grafana="http://g",
        missing={"prometheus": "not installed"},
        views={"toy": {"trials": "http://m/view"}},
    )
    text = "\n".join(places.lines())
    for part in ("http://m/view", "http://r1, http://r2", "http://g", "not installed"):
        assert part in text
    assert "sweep report toy" in text
    summary = places.summary()
    assert (summary["ray"], summary["prometheus"]) == ("http://r1", None)
    assert summary["missing"] == {"prometheus": "not installed"}
    bare = Places(mlflow="http://m")
    assert bare.lines()[0].split() == ["MLflow", "http://m"]
    assert "not running" in bare.lines()[1]
    assert bare.summary()["ray"] is None
