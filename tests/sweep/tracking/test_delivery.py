"""Marked trials reach the store, also one that is away at first; no failure of it is more than a
line.
"""

import threading
import time
from dataclasses import replace

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from sweep.tracking import delivery as delivery_thread
from sweep.tracking.delivery import Delivery, StoreAway, Tracking
from sweep.tracking.mlflow_store import Tracker
from tests.sweep.tracking.conftest import runs_in, until
from trainables.errors import InvalidInput, StorageFailed

pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow's imports and SQLAlchemy's pool
LATER = "the sweep goes on; `sweep resume toy` delivers the rest"
REFUSED = MlflowException.invalid_parameter_value("refused")


@pytest.fixture
def tracking(settings):
    return Tracking(settings, "toy")


@pytest.fixture
def ids(sweep):
    return [trial.id for trial in sweep.plan().trials]


@pytest.fixture
def problems(monkeypatch):
    """What the store raises at its next openings and deliveries, before it does as it should."""
    found = []
    open_store, deliver = Tracker.__init__, Tracker.deliver

    def opening(self, settings):
        if found and isinstance(found[0], InvalidInput | StorageFailed):
            raise found.pop(0)
        open_store(self, settings)

    def delivering(self, *given, **named):
        if found:
            raise found.pop(0)
        deliver(self, *given, **named)

    monkeypatch.setattr(Tracker, "__init__", opening)
    monkeypatch.setattr(Tracker, "deliver", delivering)
    return found


@pytest.mark.parametrize(
    ("raised", "then"),
    [
        ([OSError("away\nsecond line")], LATER),
        ([RuntimeError("away")], LATER),
        ([REFUSED, MlflowException.invalid_parameter_value("away")], "the sweep goes on"),
        ([REFUSED, InvalidInput("away")], "the sweep goes on"),
    ],
)
def test_a_failure_is_one_line_and_what_it_promises_can_be_true(
    raised, then, tracking, problems, sweep, settings, capsys, ids
):
    first, *_ = ids
    problems += raised
    assert str(tracking.deliver(sweep, [first], running=True)).endswith("away")
    problems.append(OSError("still away"))
    assert tracking.deliver(sweep, [first], running=True) == "still away"
    assert capsys.readouterr().err.replace("INVALID_PARAMETER_VALUE: ", "") == (
        f"MLflow failed (away): {then}\n"
    )
    assert tracking.deliver(sweep, [first], running=True) is None
    assert set(runs_in(settings)) == {"", first}
    assert tracking.deliver(sweep, running=False) is None
    assert set(runs_in(settings)) == {"", *ids}


def test_a_run_that_was_deleted_meanwhile_is_made_anew_without_a_line(
    tracking, sweep, settings, tmp_path, capsys, ids
):
    tracking.open(must_answer=True)
    early = until(sweep, 1, tmp_path / "early")
    assert tracking.deliver(early, running=True) is None
    first, *_ = ids
    gone = runs_in(settings)[first].info.run_id
    MlflowClient(settings.tracking_uri).delete_run(gone)
    assert tracking.deliver(sweep, running=False) is None
    assert set(runs_in(settings)) == {"", *ids}
    assert runs_in(settings)[first].info.run_id != gone
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("problem", [StoreAway("no answer"), StorageFailed("no disk")])
def test_a_store_that_need_not_answer_is_opened_later(
    problem, tracking, problems, sweep, settings, capsys
):
    problems += [problem, problem]
    with pytest.raises(type(problem)):
        tracking.open(must_answer=True)
    tracking.open(must_answer=False)
    assert capsys.readouterr().err == f"MLflow failed ({problem}): {LATER}\n"
    assert tracking.deliver(sweep, running=False) is None
    assert tracking.delete(sweep) is None
    assert runs_in(settings) == {}
    problems.append(InvalidInput("gone"))
    assert tracking.delete(sweep) == "gone"


# ---- the thread that delivers


def test_marks_of_one_moment_are_one_delivery_in_the_order_of_ids(
    tracking, sweep, monkeypatch, ids
):
    monkeypatch.setattr(delivery_thread, "_GATHERING", 60.0)  # a moment on a busy machine
    calls = []
    deliver = Tracker.deliver

    def recorded(self, folder, ids=None, *, running):
        calls.append((ids, running))
        deliver(self, folder, ids, running=running)

    monkeypatch.setattr(Tracker, "deliver", recorded)
    assert Delivery(tracking, sweep).close(timeout=60) is None
    assert calls == [], "nothing was marked"
    delivery = Delivery(tracking, sweep)
    first, second, _ = sorted(ids)
    for name in (second, first, second):
        delivery.mark(name)
    assert delivery.close(timeout=60) is None
    assert calls == [([first, second], True)]


def test_a_store_that_is_away_gets_all_later(tracking, problems, sweep, settings, monkeypatch, ids):
    monkeypatch.setattr(delivery_thread, "_REST", 0.1)
    problems += [StoreAway("no answer"), OSError("no answer")]
    delivery = Delivery(tracking, sweep)
    delivery.mark(ids[0])
    limit = time.monotonic() + 60
    while problems and time.monotonic() < limit:
        time.sleep(0.05)
    assert delivery.close(timeout=60) is None
    assert set(runs_in(settings)) == {"", ids[0]}


def test_a_store_that_stays_away_is_the_reason_in_one_line(tracking, problems, sweep, ids):
    problems += [OSError("no route\nand more")] * 9
    delivery = Delivery(tracking, sweep)
    delivery.mark(ids[0])
    assert delivery.close(timeout=60) == "no route"


def test_a_store_that_does_not_return_does_not_hold_the_sweep(tracking, sweep, monkeypatch, capsys):
    over = threading.Event()
    monkeypatch.setattr(Tracker, "deliver", lambda *_, **__: over.wait(60))
    delivery = Delivery(tracking, sweep)
    delivery.mark("a")
    assert delivery.close(timeout=0.1) == "the tracking store is slow"
    assert capsys.readouterr().err == f"MLflow failed (the tracking store is slow): {LATER}\n"
    over.set()


def test_a_server_that_does_not_answer_is_away_and_named_without_its_password(
    settings, silent_port
):
    away = replace(settings, tracking_uri=f"http://ann:s3cret@127.0.0.1:{silent_port}")
    with pytest.raises(StoreAway, match=r"^tracking store http://ann:\*\*\*@127") as refused:
        Tracker(away)
    assert "does not answer" in str(refused.value)
    assert "s3cret" not in str(refused.value)
