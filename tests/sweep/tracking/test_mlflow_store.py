"""MLflow has what the disk has, once, however often and in however many parts it is
delivered.
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from sweep import serve
from sweep.commands.ui import page_of_trials
from sweep.runtime import runner
from sweep.settings import from_environment
from sweep.store.sweeps import SweepFolder
from sweep.tracking.mlflow_store import CURATOR, EXPERIMENT, Tracker, accepted
from tests.refusals import refused
from tests.sweep.sweeps import TOY, run_toy, settings_in
from tests.sweep.tracking.conftest import history, runs_in, until
from trainables.errors import InvalidData

pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # of MLflow's imports and SQLAlchemy's pool


# Tags that are public, with what they hold: names, states, versions and times, and no
# figure of a trial. Those of the curator have a name that says so.
_PUBLIC_TAGS = {
    *("engine", "mlflow.loggedArtifacts", "mlflow.note.content", "mlflow.parentRunId"),
    *(
        "mlflow.runName",
        "mlflow.source.git.commit",
        "mlflow.source.name",
        "mlflow.user",
    ),
    *(
        "sweep.baseline",
        "sweep.delivered",
        "sweep.delivered_epoch",
        "sweep.group",
        "sweep.id",
    ),
    *("sweep.name", "sweep.reason", "sweep.source", "sweep.status", "sweep.trial"),
}


def is_public_tag(name, value):
    """An infinite figure, which is no metric in MLflow, is a tag."""
    return name in _PUBLIC_TAGS or name.startswith("version.") or value == "inf"


def artifacts(settings, run):
    client = MlflowClient(settings.tracking_uri)
    return {item.path for item in client.list_artifacts(run.info.run_id)}


def check(settings, sweep):
    runs = runs_in(settings)
    records = {record.plan.id: record for record in sweep.records(running=False)}
    assert set(runs) == {"", *records}
    for trial, record in records.items():
        run, steps = runs[trial], history(settings, runs[trial])
        assert steps.pop("validation_ser") == [
            (row["epochs_done"], row["metrics"]["validation_ser"])
            for row in sweep.epochs(trial)
        ]
        assert {len(values) for values in steps.values()} == {1}, "each figure once"
        metrics, tags = run.data.metrics, run.data.tags
        assert metrics["ser"] == record.metrics["ser"]
        assert metrics["best_validation_ser"] == record.metrics["validation_ser"]
        assert metrics["seconds"] == pytest.approx(record.seconds)
        assert "threads" not in metrics, "what is not registered stays out"
        assert (tags["sweep.status"], run.info.status) == (
            record.status.value,
            "FINISHED",
        )
        assert tags["mlflow.parentRunId"] == runs[""].info.run_id
        assert (tags["engine"], tags["sweep.group"]) == (
            record.plan.engine,
            record.plan.group,
        )
        assert {"config.yaml", "privacy_card.json"} <= artifacts(settings, run)
    for run in runs.values():
        others = {
            name
            for name, value in run.data.tags.items()
            if not is_public_tag(name, value)
        }
        assert all(name.split(".")[0] == CURATOR for name in others), others
    sgd, noisy, _ = (runs[trial].data for trial in records)
    assert (sgd.tags["epsilon"], "epsilon" in sgd.metrics) == ("inf", False)
    assert {"epsilon", "paper_epsilon"} <= noisy.metrics.keys()
    assert {"report.html", "space.yaml"} == artifacts(settings, runs[""])
    assert not any(name.startswith("trials") for name in runs[""].data.metrics)


def test_the_shared_view_lists_the_trials_the_best_first_with_its_columns(
    sweep, settings, monkeypatch
):
    Tracker(settings).deliver(sweep)
    client, sweep_id = MlflowClient(settings.tracking_uri), sweep.about()["id"]
    experiment = client.get_experiment_by_name(EXPERIMENT)
    view = json.loads(experiment.tags[f"mlflow.sharedViewState.{sweep_id}"])
    order = "ASC" if view["orderByAsc"] else "DESC"
    shown = client.search_runs(
        [experiment.experiment_id],
        view["searchFilter"],
        order_by=[f"{view['orderByKey']} {order}"],
    )
    records = sweep.records(running=False)
    best_first = sorted(records, key=lambda record: record.metrics["ser"])
    assert [run.data.metrics["ser"] for run in shown] == [
        record.metrics["ser"] for record in best_first
    ]
    known = {f"metrics.`{name}`" for run in shown for name in run.data.metrics}
    known |= {f"params.`{name}`" for run in shown for name in run.data.params}
    assert {"metrics.`epsilon`", "params.`z0`"} <= {*view["selectedColumns"]} & known
    axis = {run.data.params.get("z0") for run in shown}
    assert axis == {None, "0.5", "1"}, "a baseline has no axis"

    page = f"#/experiments/{experiment.experiment_id}/runs?workflowType="
    page += f"machine_learning&viewStateShareKey={sweep_id}"
    tags = [{"key": key, "value": value} for key, value in experiment.tags.items()]
    answer = {"experiment_id": experiment.experiment_id, "tags": tags}
    monkeypatch.setattr(serve, "mlflow_experiment", lambda server: answer)
    assert page_of_trials(serve.Server("http://here"), settings.home) == page
    Tracker(settings).delete(sweep)
    left = client.get_experiment_by_name(EXPERIMENT).tags
    assert not [key for key in left if sweep_id in key]


def test_it_has_what_the_disk_has_once(sweep, settings, tmp_path):
    full = SweepFolder(shutil.copytree(sweep.path, tmp_path / "full"))
    tracker = Tracker(settings)
    ids = [trial.id for trial in sweep.plan().trials]
    for epochs in (1, 1, 2):
        tracker.deliver(until(full, epochs, sweep.path), ids)
    assert {run.info.status for run in runs_in(settings).values()} == {"RUNNING"}
    tracker = Tracker(settings)  # another process goes on
    shutil.rmtree(sweep.path)
    shutil.copytree(full.path, sweep.path)
    tracker.deliver(sweep, [*ids, "unknown"])
    tracker.deliver(sweep)
    check(settings, sweep)
    again = Tracker(settings)
    again.deliver(sweep)
    check(settings, sweep)
    again.delete(sweep)
    assert runs_in(settings) == {}


def test_a_damaged_trial_costs_the_report_and_nothing_else(sweep, settings):
    first = sweep.plan().trials[0].id
    with (sweep.trial_folder(first) / "model" / "weights.safetensors").open(
        "ab"
    ) as file:
        file.write(b"more")
    with refused(f"damaged: trial {first}", InvalidData):
        Tracker(settings).deliver(sweep)
    runs = runs_in(settings)
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    assert "report.html" not in artifacts(settings, runs[""])


def test_what_mlflow_refuses_of_one_trial_holds_up_no_other(
    sweep, settings, monkeypatch
):
    (refused, *others) = [trial.id for trial in sweep.plan().trials]
    log = Tracker.log

    def picky(self, run, *, params=(), **others):
        is_refused = params and run is self._runs.get(refused)
        with monkeypatch.context() as patch:
            patch.setattr("sweep.tracking.mlflow_store.accepted", lambda name: name)
            log(
                self,
                run,
                params={**dict(params), **({"": 1} if is_refused else {})},
                **others,
            )

    monkeypatch.setattr(Tracker, "log", picky)
    with pytest.raises(MlflowException):
        Tracker(settings).deliver(sweep)
    runs = runs_in(settings)
    assert {run.info.status for run in runs.values()} == {"FINISHED"}, (
        "none is left running"
    )
    assert set(runs) == {"", refused, *others}
    assert all("ser" in runs[trial].data.metrics for trial in others)


def test_any_name_and_any_length_is_accepted(settings, monkeypatch):
    store, log_batch, with_tags = Tracker(settings), MlflowClient.log_batch, []

    def written(self, run_id, metrics=(), params=(), tags=()):
        with_tags.append(bool(tags))
        log_batch(self, run_id, metrics, params, tags)

    monkeypatch.setattr(MlflowClient, "log_batch", written)
    words = [
        "a@b#c",
        "a#b@c",
        "kéy",
        ".",
        "..",
        "../x",
        "/x",
        "x//y",
        "x/./y",
        "x/",
        ":",
        "..x",
    ]
    words += ["x y", "", "a\0b", "é" * 300, "/" * 300, " ", "\n", "e\ud800", "漢字"]
    # And more than MLflow takes at once.
    names = [
        *(f"model.options.{word}" for word in words),
        *(f"p{n}" for n in range(100)),
    ]
    run = store.create("n" * 999, started=0.0, tags={"note": "x" * 99_999})
    values = {name: f"{name}\0\ud800" + "é" * 9_999 for name in names}
    store.log(
        run,
        params=values,
        metrics=[],
        tags={f"t{n}": v for n, v in enumerate(values.values())},
    )
    assert with_tags == [False, True], (
        "of several batches, MLflow would write them in the first"
    )
    data = store.client.get_run(run.id).data
    assert set(data.params) == {accepted(name) for name in names}
    assert len(data.params) == len(names), "two names remain two"
    assert data.params["model.options.kéy"].startswith("model.options.kéy")


def test_an_interrupt_while_the_tables_are_made_leaves_no_half_store(
    tmp_path, monkeypatch
):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    settings = settings_in(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "search_experiments", interrupt)
        with pytest.raises(KeyboardInterrupt):
            Tracker(settings)
    assert not list(settings.home.glob("mlflow.db*"))
    Tracker(settings)
    assert [path.name for path in settings.home.glob("mlflow.db*")] == ["mlflow.db"]


def test_a_failing_database_says_so_by_its_exception_alone(settings, capsys):
    store = Tracker(settings)
    connection = sqlite3.connect(settings.home / "mlflow.db")
    connection.execute("DROP TABLE tags")
    connection.close()
    with pytest.raises(MlflowException):
        store.create("t1", started=0.0, tags={"engine": "sgd"})
    assert capsys.readouterr().err == ""


@pytest.fixture
def _open_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_umask")
def test_others_can_read_neither_the_store_nor_its_artifacts(tmp_path):
    """Also where a notebook made it: it holds figures that are for the curator
    alone.
    """
    settings = settings_in(tmp_path)
    settings.home.mkdir(mode=0o755)
    store = Tracker(settings)
    run = store.create("t1", started=0.0, tags={})
    store.client.log_text(run.id, "mia_auc", "figures.json")
    entries = {
        path.name: path.stat().st_mode & 0o077 for path in settings.home.iterdir()
    }
    assert {"mlflow.db", "mlartifacts"} <= entries.keys()
    assert [name for name, others in entries.items() if others] == []
    assert list(settings.home.glob("mlartifacts/*/artifacts/figures.json"))


def test_a_deleted_experiment_is_named_with_the_command_that_restores_it(settings):
    store = Tracker(settings)
    number, uri = store.experiment_id, re.escape(settings.tracking_uri)
    store.client.delete_experiment(number)
    command = f"mlflow experiments restore --experiment-id {number}`"
    with refused(rf"{EXPERIMENT!r} \(id {number}\) in {uri} .*{command}"):
        Tracker(settings)
    store.client.restore_experiment(number)
    Tracker(settings)


def test_a_moved_home_writes_nothing_to_the_old_one(settings, tmp_path):
    before = Tracker(settings).experiment_id
    moved = settings_in(tmp_path / "moved")
    moved.home.parent.mkdir()
    settings.home.rename(moved.home)
    old, new = (re.escape(str(each.artifacts_dir)) for each in (settings, moved))
    command = f"rename --experiment-id {before} --new-name sweeps-before"
    with refused(f"{old}, expected {new}: .*{command}"):
        Tracker(moved)
    assert not settings.home.exists()
    MlflowClient(moved.tracking_uri).rename_experiment(before, "sweeps-before")
    assert Tracker(moved).experiment_id != before


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        (
            "postgresql+pg8000://ann:s3cret@127.0.0.1/x",
            "installed driver, .*No module named",
        ),
        ("postgresql+none://ann:s3cret@127.0.0.1/x", "does not answer"),
        (
            "http://ann:s3cret@127.0.0.1:{port}",
            r"store http://ann:\*\*\*@127.*does not answer",
        ),
        ("databricks", "does not answer .*credential"),
    ],
)
def test_a_store_that_cannot_be_opened_is_one_line(
    uri, words, tmp_path, monkeypatch, silent_port
):
    for name in ("DATABRICKS_HOST", "DATABRICKS_TOKEN", "DATABRICKS_CONFIG_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with refused(words, hides="s3cret") as problem:
        Tracker(
            replace(settings_in(tmp_path), tracking_uri=uri.format(port=silent_port))
        )
    assert uri.partition("ann")[0] in str(problem.value)


def test_a_store_of_ones_own_is_made_where_it_is_named(tmp_path):
    Tracker(
        replace(
            settings_in(tmp_path), tracking_uri=f"sqlite:///{tmp_path}/new/folder/m.db"
        )
    )
    assert (tmp_path / "new" / "folder" / "m.db").is_file()


@pytest.mark.parametrize("name", ["what?now", "50%20a b#ö%"])
def test_the_store_is_in_the_home_whatever_its_name(name, tmp_path):
    """Where the name means something in an address."""
    settings = from_environment({"SWEEP_HOME": str(tmp_path / name)})
    Tracker(settings)
    Tracker(settings).create("t1", started=0.0, tags={})
    assert (settings.home / "mlflow.db").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [name], "no folder beside it"


def test_an_address_of_ones_own_with_escapes_makes_no_folder_beside_its_own(tmp_path):
    named = {"SWEEP_HOME": str(tmp_path / "home")}
    uri = f"sqlite:///{tmp_path}/a%20b/m.db"
    Tracker(from_environment(named, tracking_uri=uri))
    assert (tmp_path / "a b" / "m.db").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"home", "a b"}


_FIRST_START = """
import sys, time
from pathlib import Path
from sweep.settings import from_environment
from sweep.tracking.mlflow_store import Tracker
import mlflow, alembic.command, sqlalchemy  # so that both begin at one moment
home, uri, begin = sys.argv[1:]
settings = from_environment({"SWEEP_HOME": home}, tracking_uri=uri)
Path(begin, str(time.time_ns())).touch()
while len(list(Path(begin).iterdir())) < 2:
    time.sleep(0.001)
try:
    print("experiment", Tracker(settings).experiment_id)
except Exception as problem:
    print(type(problem).__name__, problem)
"""


@pytest.mark.parametrize(
    "homes", [("a", "b"), pytest.param(("a", "a"), marks=pytest.mark.slow)]
)
def test_two_first_starts_on_one_store_both_work(tmp_path, homes):
    """Of one home; another home gets the refusal that it gets later, too."""
    begin = tmp_path / "begin"
    begin.mkdir()
    uri = f"sqlite:///{tmp_path}/shared/m.db"
    command = [sys.executable, "-c", _FIRST_START]
    started = [
        subprocess.Popen(
            [*command, str(tmp_path / home), uri, str(begin)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        for home in homes
    ]
    said = sorted(process.communicate(timeout=120)[0].strip() for process in started)
    if homes[0] == homes[1]:
        assert said == ["experiment 1"] * 2
    else:
        assert said[1] == "experiment 1"
        assert said[0].startswith("InvalidInput MLflow's experiment 'sweeps' (id 1)"), (
            said
        )
    assert [path.name for path in (tmp_path / "shared").glob("m.db*")] == ["m.db"]


def test_another_tracker_is_refused():
    with refused("expected tracking to be one of mlflow, none, got 'x'"):
        from_environment({"SWEEP_TRACKING": "x"})


def test_a_sweep_without_tracking_makes_no_store(tmp_path, monkeypatch):
    untracked = replace(settings_in(tmp_path), tracking=False)
    monkeypatch.setattr("tests.sweep.sweeps.settings_in", lambda place: untracked)
    run = run_toy(tmp_path)
    assert run.tracking_problem is None
    unnamed = replace(untracked, tracking=True, names_tracking=False)
    assert runner.resume(run.folder, unnamed, function=TOY).tracking_problem is None
    assert not list(unnamed.home.glob("mlflow*"))
