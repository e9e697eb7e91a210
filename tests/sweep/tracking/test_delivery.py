"""Marked trials reach the store, also one that is away at first; a failure of it is one
line.
"""

import threading
import time

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from sweep import status
from sweep.settings import from_environment
from sweep.tracking import delivery as delivery_thread
from sweep.tracking.delivery import Delivery, StoreAway, may_pass
from sweep.tracking.mlflow_store import EXPERIMENT, Tracker
from tests.sweep.tracking.conftest import runs_in, until
from trainables.errors import InvalidInput

pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # of MLflow's imports and SQLAlchemy's pool
LATER = "the sweep goes on; `sweep resume toy` delivers the rest"


@pytest.fixture
def ids(sweep):
    return [trial.id for trial in sweep.plan().trials]


@pytest.fixture
def problems(monkeypatch):
    """What the store raises at its next deliveries, before it does as it should."""
    found, deliver = [], Tracker.deliver

    def delivering(self, *given):
        if found:
            raise found.pop(0)
        deliver(self, *given)

    monkeypatch.setattr(Tracker, "deliver", delivering)
    monkeypatch.setattr(delivery_thread, "_REST", 0.1)
    monkeypatch.setattr(delivery_thread, "_GATHERING", 0.1)
    return found


def wait_until(found):
    limit = time.monotonic() + 60
    while not found() and time.monotonic() < limit:
        time.sleep(0.05)
    assert found()


@pytest.mark.parametrize("raised", [OSError("away\nsecond line"), RuntimeError("away")])
def test_a_store_that_is_away_is_one_line_and_gets_all_later(
    raised, problems, sweep, settings, capsys, ids
):
    problems += [raised, InvalidInput("still away")]
    delivery = Delivery(settings, sweep)
    delivery.mark(ids[0])
    wait_until(lambda: not problems)
    assert delivery.close() is None
    assert capsys.readouterr().err == f"MLflow failed (away): {LATER}\n"
    assert set(runs_in(settings)) == {"", *ids}


def test_what_is_refused_is_no_reason_to_promise_a_later_delivery():
    invalid = MlflowException.invalid_parameter_value("")
    away = OSError(), MlflowException(""), StoreAway("")
    assert [*map(may_pass, (*away, invalid, InvalidInput("")))] == [True] * 3 + [
        False
    ] * 2


def test_a_run_that_was_deleted_meanwhile_is_made_anew_without_a_line(
    problems, sweep, settings, tmp_path, capsys, ids
):
    early = until(sweep, 1, tmp_path / "early")
    first, *_ = ids
    assert Delivery(settings, early).close() is None
    delivery = Delivery(settings, sweep)
    delivery.mark(ids[1])
    wait_until(lambda: delivery._tracker is not None)
    gone = runs_in(settings)[first].info.run_id
    MlflowClient(settings.tracking_uri).delete_run(gone)
    delivery.mark(first)
    wait_until(lambda: first in runs_in(settings))
    assert runs_in(settings)[first].info.run_id != gone
    assert delivery.close() is None
    assert (capsys.readouterr().err, set(runs_in(settings))) == ("", {"", *ids})


def test_marks_of_one_moment_are_one_delivery(sweep, settings, monkeypatch, ids):
    monkeypatch.setattr(delivery_thread, "_GATHERING", 1.0)
    calls = []
    monkeypatch.setattr(
        Tracker, "deliver", lambda self, folder, ids, count: calls.append(ids)
    )
    delivery = Delivery(settings, sweep)
    first, second, _ = ids
    for name in (second, first, second):
        delivery.mark(name)
    wait_until(lambda: calls)
    assert delivery.close() is None
    assert calls == [{first, second}, None]


def test_a_store_that_stays_away_is_the_reason_in_one_line(
    problems, sweep, settings, ids
):
    problems += [OSError("no route\nand more")] * 999
    delivery = Delivery(settings, sweep)
    delivery.mark(ids[0])
    assert delivery.close() == "no route"


@pytest.mark.slow  # it waits
def test_a_store_is_waited_for_while_it_takes_trials(
    sweep, settings, monkeypatch, capsys
):
    """And is left alone afterwards: its folder may be removed."""
    over, written, words, tracker = threading.Event(), [], [], Tracker(settings)

    def deliver(self, folder, ids, count):
        for number in range(13):
            time.sleep(0.2)
            if number == 12:
                over.wait(60)
            count(number, 12)
        written.append(ids)

    monkeypatch.setattr(Tracker, "deliver", deliver)
    changes = {"open_store": lambda settings: tracker, "_PATIENCE": 1.2, "_SAYING": 0.0}
    for name, value in changes.items():
        monkeypatch.setattr(delivery_thread, name, value)
    delivery = Delivery(settings, sweep)
    with status.listener(words.append):
        assert delivery.close() == "the tracking store is slow"
    assert words[-1] == "delivering results: 11 of 12 trials"
    assert (
        capsys.readouterr().err
        == f"MLflow failed (the tracking store is slow): {LATER}\n"
    )
    over.set()
    delivery._thread.join(60)
    assert not written


@pytest.mark.parametrize(
    ("named", "started_with", "expected"),
    [
        (None, True, True),
        (None, False, False),
        ("mlflow", False, True),
        ("none", True, False),
    ],
)
def test_a_started_sweep_keeps_its_choice_unless_another_is_named(
    named, started_with, expected, sweep, settings
):
    sweep.note(tracking=started_with)
    chosen = from_environment({"SWEEP_HOME": str(settings.home)}, tracking=named)
    assert chosen.names_tracking is (named is not None)
    assert Delivery(chosen, sweep).close() is None
    client = MlflowClient(settings.tracking_uri)
    assert (client.get_experiment_by_name(EXPERIMENT) is not None) is expected
