"""What only shows a sweep never ends it: a failure is injected into each, and costs one
line.
"""

import io
import json

import mlflow.tracking
import pytest
import rich.live
from rich.console import Console

from sweep import cli, progress_display
from sweep.best_effort import BestEffort
from sweep.commands import run as command
from sweep.results.tables import progress, trials
from sweep.runtime import ray_metrics as metrics
from sweep.store.sweeps import open_sweep
from tests.libraries import IGNORED
from tests.sweep.sweeps import make_store, settings_in, space_in

pytestmark = IGNORED


def boom(*args, **named):
    raise RuntimeError("boom\nin two lines")


@pytest.fixture
def toy(place, toy_trials, monkeypatch):
    """The file of a space of three trials of a toy, which is run without MLflow."""
    monkeypatch.setenv("SWEEP_TRACKING", "none")
    monkeypatch.setattr(
        progress_display, "_PREPARING", BestEffort("the line of progress")
    )
    path = place / "space.yaml"
    path.write_text(json.dumps(space_in(place).document()))
    return str(path)


def require_results(home):
    assert [record.status for record in open_sweep(home, "toy").records()] == [
        "done"
    ] * 3


@pytest.mark.parametrize(
    ("of", "name", "is_terminal", "what"),
    [
        (metrics, "_ray_gauge", False, "Ray's metrics"),
        (progress_display.View, "update", False, "the live table"),
        (progress_display.View, "summary", False, "the live table"),
        (progress_display.View, "table", True, "the live table"),
        (progress, "live_table", True, "the live table"),
        (rich.live.Live, "start", True, "the live table"),
        (rich.live.Live, "refresh", True, "the live table"),
        (rich.live.Live, "stop", True, "the live table"),
        (trials, "results_table", False, "the table of results"),
    ],
)
def test_what_shows_a_sweep_never_ends_it(
    of, name, is_terminal, what, toy, tmp_path, monkeypatch, capsys
):
    screen = io.StringIO()
    if is_terminal:
        console = Console(file=screen, force_terminal=True, width=200)
        monkeypatch.setattr(command, "console", lambda **_: console)
    monkeypatch.setattr(metrics, "_ray_is_up", lambda: of is metrics)
    monkeypatch.setattr(of, name, boom)
    assert cli.run(["run", toy]) == 0
    require_results(tmp_path / "home")
    said = capsys.readouterr().err + screen.getvalue()
    assert said.count(f"{what} failed (boom): the ") == 1
    assert (
        said.count("boom") == 1 + said.count("the line of progress failed (boom)") <= 2
    )
    assert "in two lines" not in said


@pytest.mark.parametrize(
    "name", ["create_run", "log_batch", "log_text", "set_terminated"]
)
def test_a_call_of_mlflow_that_fails_costs_a_line_and_the_next_resume_catches_up(
    name, toy, tmp_path, monkeypatch, capsys
):
    client, home = mlflow.tracking.MlflowClient, tmp_path / "home"
    monkeypatch.setenv("SWEEP_TRACKING", "mlflow")
    make_store(settings_in(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(client, name, boom)
        assert cli.run(["run", toy]) == 0
    require_results(home)
    then = "the sweep goes on; `sweep resume toy` delivers the rest"
    said = capsys.readouterr().err
    assert said.count("boom") == said.count(f"MLflow failed (boom): {then}\n") == 1
    assert cli.run(["resume", "toy"]) == 0
    assert "boom" not in capsys.readouterr().err
    store = client(f"sqlite:///{home}/mlflow.db")
    experiment = store.get_experiment_by_name("sweeps")
    found = store.search_runs([experiment.experiment_id])
    assert [run.info.status for run in found] == ["FINISHED"] * 4
    for run in found:
        assert store.list_artifacts(run.info.run_id)


def test_an_experiment_that_is_deleted_in_mid_sweep_is_named(
    toy, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("SWEEP_TRACKING", "mlflow")
    make_store(settings_in(tmp_path))
    client, create = (
        mlflow.tracking.MlflowClient,
        mlflow.tracking.MlflowClient.create_run,
    )

    def delete_and_create(self, experiment, *args, **named):
        if self.get_experiment(experiment).lifecycle_stage == "active":
            self.delete_experiment(experiment)
        return create(self, experiment, *args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(client, "create_run", delete_and_create)
        assert cli.run(["run", toy]) == 0
    require_results(tmp_path / "home")
    (said,) = [
        line for line in capsys.readouterr().err.splitlines() if "MLflow failed" in line
    ]
    assert "mlflow experiments restore --experiment-id 1" in said
    assert said.endswith(": the sweep goes on"), "a resume delivers nothing before that"
    for words in (
        ["run", toy, "--name", "b"],
        ["resume", "toy"],
        ["delete", "toy", "--yes"],
    ):
        assert cli.run(words) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert "mlflow experiments restore --experiment-id 1" in said
        assert ("--keep-tracking" in said) == (words[0] == "delete")
    assert not (tmp_path / "home" / "b").exists()
    assert cli.run(["delete", "toy", "--yes", "--keep-tracking"]) == 0


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes(leaving):
    with pytest.raises(leaving), BestEffort("this"):
        raise leaving


def test_an_error_without_words_has_those_of_its_cause(capsys, monkeypatch):
    guard = BestEffort("this")
    with guard:
        raise OSError from ValueError("the cause")
    assert guard.problem == "the cause"
    with guard:
        pass
    assert guard.problem is None
    assert capsys.readouterr().err == "this failed (the cause): the sweep goes on\n"
    monkeypatch.setattr("sys.stderr", None)
    with BestEffort("that"):
        raise OSError
