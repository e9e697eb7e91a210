"""A sweep from its start to its export: a toy trial in this process, a real MLflow
store.
"""

import importlib
import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import sweep
from sweep import interrupts
from sweep.planning.prepare import prepare_space
from sweep.results import select
from sweep.results.export import export_trial
from sweep.results.frame import summary
from sweep.runtime import driver, runner
from sweep.runtime.driver import run_trials
from sweep.runtime.events import Interrupted
from sweep.serve import mlflow_server
from sweep.spending.ledger import FILE
from sweep.store import sweeps as store
from sweep.store.sweeps import SweepFolder
from sweep.tracking.mlflow_store import EXPERIMENT
from tests.libraries import IGNORED
from tests.refusals import refused
from tests.sweep.sweeps import (
    TOY,
    ledger_of,
    make_store,
    prepared_in,
    run_toy,
    settings_in,
    space_in,
    statuses,
)
from tests.sweep.untracked import run_untracked, without_mlflow
from trainables.errors import InvalidInput

pytestmark = IGNORED


class Runs:
    """MLflow's store, read back with its own client."""

    def __init__(self, folder):
        # The name must not be on the top level: only the tracker may import it there.
        client = importlib.import_module("mlflow.tracking").MlflowClient
        self.client = client(tracking_uri=settings_in(folder).tracking_uri)
        self.experiment = self.client.get_experiment_by_name(EXPERIMENT)

    def find(self, query=""):
        return list(
            self.client.search_runs(
                [self.experiment.experiment_id], filter_string=query
            )
        )

    def snapshot(self):
        return {
            run.info.run_id: (
                run.info.status,
                run.data.params,
                {
                    name: [(m.step, m.value) for m in self.client.get_metric_history(
                        run.info.run_id, name)]
                    for name in run.data.metrics
                },
            )
            for run in self.find()
        }  # fmt: skip


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    # This one makes its store itself.
    folder = tmp_path_factory.mktemp("done")
    assert run_toy(folder).tracking_problem is None
    return folder


@pytest.fixture
def place(tmp_path):
    make_store(settings_in(tmp_path))
    return tmp_path


@pytest.fixture
def toy(done):
    return store.open_sweep(settings_in(done).home, "toy")


def test_no_sweep_can_have_the_name_of_what_a_sweep_leaves_in_its_home(toy):
    home = toy.path.parent
    others = {path.name for path in home.iterdir()} - {toy.name}
    assert {"cache", FILE, "ledger.key", "ledger.records", "mlflow.db"} <= others
    for name in others:
        with refused(r"^name: "):
            store.open_sweep(home, name)


@pytest.mark.slow  # MLflow makes its tables, in two processes
def test_two_sweeps_may_begin_in_a_new_home_at_once(tmp_path):
    script = (
        "import sys; from pathlib import Path; from sweep.tracking.mlflow_store import"
        " Tracker; from tests.sweep.sweeps import settings_in;"
        " Tracker(settings_in(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path)]
    both = [
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [(process.wait(), process.communicate()[1]) for process in both] == [
        (0, "")
    ] * 2


def test_mlflow_has_a_parent_and_a_child_for_each_trial(done, toy):
    """Their figures and artifacts are those of the disk: `tests/sweep/tracking`."""
    runs, records = Runs(done), {record.plan.name: record for record in toy.records()}
    (parent,) = (run for run in runs.find() if "sweep.trial" not in run.data.tags)
    found = runs.find(f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
    children = {run.info.run_name: run for run in found}
    assert children.keys() == records.keys() == {"sgd", "edp, z0=0.5", "edp, z0=1"}
    assert parent.info.end_time == int(max(r.ended_at for r in records.values()) * 1000)
    assert runs.experiment.artifact_location == (done / "home" / "mlartifacts").as_uri()
    assert parent.data.tags["version.torch"]
    for name, run in children.items():
        tags, params = run.data.tags, run.data.params
        wanted = (records[name].plan.id, "toy", str(name == "sgd").lower())
        assert (
            tags["sweep.trial"],
            tags["sweep.name"],
            tags["sweep.baseline"],
        ) == wanted
        assert "" not in tags.values()
        worked = (run.info.end_time - run.info.start_time) / 1000
        assert worked == pytest.approx(
            records[name].seconds, abs=0.01
        )  # work, not the calendar
        assert (params["data.name"], params["model.name"]) == ("json_lines", "clc")
    assert not any(name.startswith("privacy.") for name in children["sgd"].data.params)
    params = children["edp, z0=1"].data.params
    assert (params["privacy.noise_multiplier"], params["privacy.max_grad_norm"]) == (
        "1.0",
        "1.0",
    )


def test_a_resume_of_a_finished_sweep_changes_nothing(done, toy):
    before, spent = Runs(done).snapshot(), len(ledger_of(toy).entries())
    assert runner.resume(toy, settings_in(done), function=TOY).tracking_problem is None
    assert Runs(done).snapshot() == before
    assert len(ledger_of(toy).entries()) == spent


def test_python_gives_a_frame_of_trials(done, toy):
    frame = sweep.results("toy", settings=settings_in(done))
    assert list(frame["status"]) == ["done"] * 3
    assert frame["privacy.noise_multiplier"].tolist()[1:] == [0.5, 1.0]
    for trial in summary(toy, toy.records())["trials"]:
        mine, epsilon = frame.loc[trial["id"]], trial["epsilon"]
        assert (mine["variant"], mine["ser"]) == (
            trial["variant"],
            trial["metrics"]["ser"],
        )
        assert epsilon is None or mine["epsilon"] == epsilon


def test_an_export_holds_nothing_for_the_curator_only(toy, tmp_path):
    (best,) = select.choose(toy.records(), best="ser")
    private = {**best.metrics, "mia_shadow_auc": 0.6, "train_loss": 1.0}
    best = type(best)(**{**best.__dict__, "metrics": private})
    target = export_trial(toy, best, tmp_path / "out", chosen_by="mia_shadow_auc")
    # What is not registered (the toy's number of threads) is the curator's too.
    assert set(json.loads((target / "metrics.json").read_text())) == {
        "ser",
        "validation_ser",
    }
    with refused("expected a new folder"):
        export_trial(toy, best, tmp_path / "out")


def prepare_and_start(space, folder, **options):
    settings = settings_in(folder)
    runner.start(
        prepare_space(space, settings=settings), settings, function=TOY, **options
    )


def interrupted_after(count):
    """A watch that presses Ctrl-C at the `count`-th report of an epoch."""
    seen = []

    def watch(trial_id, progress):
        if progress.validation[1] is not None:
            seen.append(trial_id)
            if len(seen) == count:
                raise KeyboardInterrupt

    return watch


def test_an_interrupted_sweep_resumes_from_its_last_epoch_also_without_its_server(
    place, capsys
):
    settings, prepared = settings_in(place), prepared_in(place)
    with refused("`sweep resume toy` continues", Interrupted):
        runner.start(prepared, settings, function=TOY, watch=interrupted_after(5))
    folder = store.open_sweep(settings.home, "toy")
    assert statuses(folder) == ["done", "interrupted", "planned"]
    assert not folder.is_running
    runs = {
        run.data.tags.get("sweep.trial", ""): run.info.status
        for run in Runs(place).find()
    }
    trials = folder.plan().trials
    left = {"": "KILLED", trials[0].id: "FINISHED", trials[1].id: "KILLED"}
    assert runs == left

    remote = replace(settings, tracking_uri="http://127.0.0.1:9")
    capsys.readouterr()
    run = runner.resume(folder, remote, function=TOY)
    assert statuses(run.folder) == ["done"] * 3
    # No epoch was trained twice: the toy writes a line for each.
    for trial in trials:
        lines = (folder.trial_folder(trial.id) / "trained.txt").read_text().splitlines()
        assert [line.split()[0] for line in lines] == ["1", "2", "3"]
    assert "http://127.0.0.1:9 does not answer" in str(run.tracking_problem)
    (said,) = capsys.readouterr().err.splitlines()
    assert "http://127.0.0.1:9 does not answer" in said
    assert said.endswith(
        "`sweep resume toy --tracking-uri http://127.0.0.1:9` delivers the rest"
    )
    assert sorted(found.info.status for found in Runs(place).find()) == sorted(
        left.values()
    )

    assert runner.resume(folder, settings, function=TOY).tracking_problem is None
    runs = Runs(place).find()
    assert [found.info.status for found in runs] == ["FINISHED"] * 4
    for found in runs:
        if "sweep.trial" in found.data.tags:
            history = Runs(place).client.get_metric_history(
                found.info.run_id, "validation_ser"
            )
            assert [metric.step for metric in history] == [1, 2, 3]


DRIVER = """
import pathlib, sys, time
from tests.sweep import sweeps, toy_trial
fault, begun = toy_trial._fault, []
def hang(folder, rank, epoch):
    fault(folder, rank, epoch)
    begun.append(epoch)
    if begun == [0, 1, 2, 0, 1]:
        print("ready", flush=True)
        time.sleep(600)
toy_trial._fault = hang
sweeps.run_toy(pathlib.Path(sys.argv[1]))
"""


def test_a_killed_driver_loses_nothing(place):
    """SIGKILL in the middle of the second trial, then a resume in another process."""
    folder = SweepFolder(settings_in(place).home / "toy")
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", DRIVER, str(place)]
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout.readline() == "ready\n"
        time.sleep(1.2)  # MLflow may have been given some of it
        killed.kill()
    ids = [trial.id for trial in folder.plan().trials]
    assert statuses(folder) == ["done", "interrupted", "planned"]
    kept = folder.state().trial(ids[0]).result
    run = runner.resume(folder, settings_in(place), function=TOY)
    assert statuses(run.folder) == ["done"] * 3
    assert folder.state().trial(ids[0]).result == kept
    for trial_id in ids:
        assert [row["epochs_done"] for row in folder.epochs(trial_id)] == [1, 2, 3]
        (found,) = Runs(place).find(f"tags.`sweep.trial` = '{trial_id}'")
        steps = Runs(place).client.get_metric_history(
            found.info.run_id, "validation_ser"
        )
        assert [metric.step for metric in steps] == [1, 2, 3]
    assert len(Runs(place).find()) == 4


@pytest.mark.slow  # two starts of MLflow's server
def test_a_server_that_goes_away_in_mid_sweep_is_caught_up_with(place, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    local = settings_in(place)
    remote = replace(local, tracking_uri=f"http://127.0.0.1:{port}")
    prepared = prepare_space(space_in(place), settings=remote)
    with ExitStack() as server:
        server.enter_context(mlflow_server(local, port=port, token="t"))

        def watch(trial_id, progress):
            if progress.status == "done":
                server.close()

        run = runner.start(prepared, remote, function=TOY, watch=watch)
    assert run.tracking_problem is not None
    assert statuses(run.folder) == ["done"] * 3
    with mlflow_server(local, port=port, token="t"):
        again = runner.resume(run.folder, remote, function=TOY)
    assert again.tracking_problem is None
    runs = Runs(place).find()
    assert sorted(found.info.status for found in runs) == ["FINISHED"] * 4
    assert len({found.data.tags.get("sweep.trial") for found in runs}) == 4


def test_a_failed_trial_is_reported_and_the_others_continue(place):
    settings, prepared = settings_in(place), prepared_in(place)
    broken = prepared.plan.trials[1].id
    order = settings.home / "toy" / "trials" / broken

    def watch(trial_id, progress):
        if order.is_dir() and not (order / "raise").exists():
            (order / "raise").write_text("-1 1")

    run = runner.start(prepared, settings, function=TOY, watch=watch)
    records = {record.plan.id: record for record in run.folder.records()}
    assert records[broken].status == "failed"
    assert str(records[broken].reason).startswith("ValueError at toy_trial.py:")
    written = [path.read_text() for path in run.folder.path.rglob("*.json")]
    assert "account number" not in json.dumps(written)
    assert sorted(statuses(run.folder)) == ["done", "done", "failed"]
    (child,) = Runs(place).find(f"tags.`sweep.trial` = '{broken}'")
    assert child.info.status == "FAILED"
    (order / "raise").unlink()
    assert (
        statuses(runner.resume(run.folder, settings, function=TOY).folder)
        == ["done"] * 3
    )
    (child,) = Runs(place).find(f"tags.`sweep.trial` = '{broken}'")
    assert child.info.status == "FINISHED"


def test_a_request_to_stop_ends_the_run(place):
    settings = settings_in(place)
    epochs = {"epochs": 200, "expected_batch_size": 30, "num_workers": 2}
    prepared = prepared_in(place, base={"training": epochs})

    def watch(trial_id, progress):
        if progress.epochs_done:
            SweepFolder(settings.home / "toy").request_stop()

    with pytest.raises(Interrupted):
        runner.start(prepared, settings, function=TOY, watch=watch)
    assert statuses(store.open_sweep(settings.home, "toy"))[0] == "interrupted"


def test_no_sweep_begins_after_an_interrupt_that_a_library_swallowed(
    place, monkeypatch
):
    """The line has said to run the same command again."""
    monkeypatch.setattr(interrupts.now, "number", signal.SIGTERM)
    with pytest.raises(Interrupted):
        run_toy(place)
    assert store.names(settings_in(place).home) == []


@pytest.fixture
def clean(tmp_path):
    """A folder in which, after the test, nothing but the cache of the corpus may have
    appeared.
    """
    home = settings_in(tmp_path).home
    (home / "taken").mkdir(parents=True)
    yield tmp_path
    assert {path.name for path in home.iterdir()} <= {"cache", "taken"}


MANY = {"num_workers": 4096, "expected_batch_size": 4096, "epochs": 1}
WIDE = {"data": {"name": "communication", "num_utterances": 10_000}, "training": MANY}
TOO_MANY, GANG = {"workers": 4096}, {"executor": "gang", "workers": 1}
NOWHERE = {"address": "127.0.0.1:9"}


@pytest.mark.parametrize(
    ("words", "fields", "options"),
    [
        (
            r"slots \* workers \* cpus_per_worker",
            {"base": WIDE, "resources": TOO_MANY},
            {},
        ),
        (
            "none with executor local, got scheduler='as",
            {"search": {"scheduler": "asha"}},
            {},
        ),
        ("no address with executor local", {}, NOWHERE),
        (r"got '127\.0\.0\.1:9': nothing answers there", {"resources": GANG}, NOWHERE),
        (
            "a sweep named taken exists",
            {"name": "taken"},
            {},
        ),  # before the store is opened
    ],
)
def test_what_cannot_run_is_refused_with_nothing_written(clean, words, fields, options):
    fields = {**fields, "variants": [{"name": "x"}]}
    with refused(words):
        prepare_and_start(space_in(clean, **fields), clean, **options)


def test_a_damaged_corpus_is_refused_with_its_line(clean):
    space = space_in(clean)
    with (clean / "mine.jsonl").open("a") as file:
        file.write('{"tokens": ["secret"], "tags": ["X"], "intent": "call"}\n')
    with refused(r"mine\.jsonl line 201", hides="secret"):
        prepare_and_start(space, clean)


def test_the_rungs_of_a_search_are_those_of_its_longest_trial_also_when_it_is_resumed(
    tmp_path, monkeypatch
):
    """It has chosen no trial when it begins; ASHA would stop each one after its first
    epoch.
    """
    seen = []
    monkeypatch.setattr(
        runner, "_run_trials", lambda *given: seen.append(given[2].max_epochs)
    )
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    fields = {
        "variants": [],
        "base": {
            "engine": "dp_sgd",
            "training": {"epochs": 6, "expected_batch_size": 30},
        },
        "axes": {
            "privacy.noise_multiplier": {
                "range": {"low": 4.0, "high": 9.0, "log": True}
            }
        },
        "search": {"strategy": "tpe", "num_samples": 2, "scheduler": "asha"},
        "resources": {"executor": "gang"},
    }
    folder = run_untracked(tmp_path, **fields)
    with without_mlflow():
        runner.resume(folder, settings_in(tmp_path), function=TOY)
    assert seen == [6, 6]


def test_what_is_refused_before_any_trial_began_leaves_the_name_free(
    place, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(driver, "run_trials", Refusing(after=0))
        with refused("no room"):
            run_toy(place)
    assert (store.names(settings_in(place).home), Runs(place).find()) == ([], [])
    assert run_toy(place).folder.name == "toy"


def test_what_is_refused_after_a_trial_keeps_what_there_is(place, monkeypatch):
    monkeypatch.setattr(driver, "run_trials", Refusing(after=1))
    with refused("no room"):
        run_toy(place)
    sweep_folder = store.open_sweep(settings_in(place).home, "toy")
    assert statuses(sweep_folder) == ["done", "planned", "planned"]


class Refusing:
    """An executor that runs so many jobs and then says that there is no room."""

    def __init__(self, *, after):
        self._after = after

    def __call__(self, jobs, **named):
        if jobs:
            run_trials(jobs[: self._after], **named)
            raise InvalidInput("no room")
