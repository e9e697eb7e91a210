"""An export in MLflow: it answers over HTTP as it does here, and no record leaves."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from mlflow import MlflowClient

from sweep import load_model
from sweep.tracking.mlflow_store import Tracker
from tests.sweep.line import Line
from tests.sweep.neighbours import corpus, nlu_home
from tests.sweep.sweeps import settings_in

pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow's imports


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return nlu_home(
        tmp_path_factory.mktemp("served") / "a",
        corpus(),
        unit="record",
        engine="edp_sgd",
    )


@pytest.fixture
def settings(home, monkeypatch):
    found = settings_in(home.path.parent.parent)
    monkeypatch.setenv("SWEEP_HOME", str(found.home))
    return found


@pytest.fixture
def trial(home):
    return home.records()[0].plan.id


@pytest.fixture
def line(capsys):
    return Line(capsys)


def test_a_trial_that_is_not_in_mlflow_is_named_and_nothing_is_written(
    home, settings, trial, line, tmp_path
):
    said = line.refused(
        *("export", home.name, "--trial", trial, "--to", tmp_path / "out"),
        "--mlflow-model",
    )
    assert f"sweep resume {home.name}" in said
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def logged(home, tmp_path_factory):
    """What `sweep export --register` printed for programs, its folder, and the
    store.
    """
    settings = settings_in(home.path.parent.parent)
    Tracker(settings).deliver(home)
    place = tmp_path_factory.mktemp("logged") / "out"
    words = ("--trial", home.records()[0].plan.id, "--to", str(place))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sweep", "export", home.name, *words),
            *("--register", "requests", "--json"),
        ],
        env={**os.environ, "SWEEP_HOME": str(settings.home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "", "no warnings of MLflow"
    return json.loads(done.stdout), place, settings


def test_the_registry_states_the_guarantee(home, logged):
    said, place, settings = logged
    assert said["mlflow_model"] == "models:/requests/1"
    card = json.loads((place / "privacy_card.json").read_text())
    version = MlflowClient(settings.tracking_uri).get_model_version("requests", "1")
    assert version.description.endswith(f"for each {card['unit']}")
    assert "epsilon" in version.description


@pytest.fixture(scope="module")
def model(logged):
    """The folder of the logged model in the store."""
    _, _, settings = logged
    client = MlflowClient(settings.tracking_uri)
    return Path(urlsplit(client.get_model_version("requests", "1").source).path)


def test_what_is_logged_is_the_export_and_no_record(logged, model):
    _, place, _ = logged
    copied = model / "data" / place.name
    for file in place.rglob("*"):
        if file.is_file():
            assert (copied / file.relative_to(place)).read_bytes() == file.read_bytes()
    words = {word for row in corpus() for word in row["tokens"] if len(word) > 2}
    example = json.loads((model / "serving_input_example.json").read_text())
    assert not words & set(" ".join(example["inputs"]).split())
    assert {path.name for path in model.iterdir()} == {
        *("MLmodel", "code", "conda.yaml", "data", "python_env.yaml"),
        *("requirements.txt", "input_example.json", "serving_input_example.json"),
    }


_OURS = ("sweep", "trainables", "search_spaces", "dashboards")
_PREDICT = """
import ast, json, sys
from pathlib import Path
from mlflow import pyfunc

folder, *ours = sys.argv[1:]
pyfunc.load_model(folder).predict(["call ann now"])
used = set()
for name, module in list(sys.modules.items()):
    is_folder = getattr(module, "__file__", None) is None  # of data alone
    if not is_folder and name.partition(".")[0] in ours:
        assert module.__file__.startswith(folder), module.__file__
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            if isinstance(node, ast.Import):
                used |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                used.add(node.module.partition(".")[0])
print(json.dumps(sorted(used & set(sys.modules) - set(sys.stdlib_module_names))))
"""


def test_it_predicts_with_its_own_code_and_names_what_that_imports(model, tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", _PREDICT, str(model), *_OURS],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    imported = set(json.loads(done.stdout.splitlines()[-1]))
    imported -= {*_OURS}
    lines = (model / "requirements.txt").read_text().splitlines()
    named = {line.partition("==")[0] for line in lines}
    required = {each for name in named for each in requires(name) or ()}
    named |= {re.match(r"[\w.-]+", each)[0] for each in required}
    named = {name.lower().replace("_", "-") for name in named}
    distributions = packages_distributions()
    assert "torchcrf" in imported
    for package in imported:
        found = {each.lower().replace("_", "-") for each in distributions[package]}
        assert found & named, package


def _post(port, body):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/invocations",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.load(refusal)


def test_mlflow_serves_it_over_http_as_it_predicts_here(logged, tmp_path):
    said, place, settings = logged
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "mlflow", "models", "serve"),
                *("-m", said["mlflow_model"], "--env-manager", "local"),
                *("-p", str(port)),
            ],
            env={
                **os.environ,
                # It calls uvicorn by its name.
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "MLFLOW_TRACKING_URI": settings.tracking_uri,
                "MLFLOW_DISABLE_TELEMETRY": "true",
            },
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=5)
                break
            except OSError:
                assert server.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.2)
        texts = ["call ann now", "text bob w1 train"]
        expected = [each.to_dict() for each in load_model(place)(texts)]
        for body in (
            {"inputs": texts},
            {"dataframe_records": [{"text": t} for t in texts]},
        ):
            status, answer = _post(port, body)
            assert status == 200
            for got, wanted in zip(answer["predictions"], expected, strict=True):
                assert got.pop("confidence") == pytest.approx(wanted["confidence"])
                assert got == {k: v for k, v in wanted.items() if k != "confidence"}
        for wrong, why in (("", "at least one word"), ("a " * 10_000, "utterance 1")):
            status, answer = _post(port, {"inputs": [wrong]})
            assert status == 400
            assert why in answer["message"]
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_a_name_that_the_registry_does_not_take_is_refused(
    logged, home, settings, trial, line, tmp_path
):
    said = line.refused(
        *("export", home.name, "--trial", trial, "--to", tmp_path / "out"),
        *("--register", "a/b:c"),
    )
    assert "--register" in said
    assert not (tmp_path / "out").exists()
