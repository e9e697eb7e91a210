"""The registry of figures: unregistered ones are for the curator only; a metric is one
file.
"""

import importlib

import pytest

from dashboards import live_metrics
from search_spaces.search import Search
from sweep.tracking.mlflow_store import learning_curves, metric_name
from tests.conformance.shelves import drop_in
from tests.metrics.nlu_scores import score
from trainables import figures
from trainables.data.records import Frame

__all__ = ["drop_in"]
METRIC = '''"""Share of utterances without any slot error."""

import numpy as np

from trainables.figures import nlu_rate

FIGURES = (
    nlu_rate(
        name="slot_accuracy",
        label="slot accuracy",
        better="higher",
        objective=True,
        is_listed=True,
        is_validated=True,
    ),
)


def value(counts):
    """1 where all slots are right."""
    return np.asarray(1.0 - np.minimum(counts.slot_errors, 1) / counts.utterances)


OF_COUNTS = {"slot_accuracy": value}
'''


@pytest.fixture
def new_metric(drop_in):
    """The shelf of metrics with one new entry."""
    drop_in("metrics", "slot_accuracy", METRIC)
    caches = (figures.registry, live_metrics.metrics)
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


@pytest.mark.usefixtures("new_metric")
def test_a_new_metric_is_one_file():
    frames = [Frame("a", (("s", 0, 1),)), Frame("b", ())]
    assert score(frames, frames, bootstrap_samples=0)["slot_accuracy"] == 1.0
    assert figures.cost("validation_slot_accuracy", 0.5) == -0.5
    assert metric_name("slot_accuracy") == "slot_accuracy"
    assert learning_curves("nlu") == [
        *("validation_ser", "validation_slot_accuracy"),
        "validation_errors",
    ]
    gauge = live_metrics.metrics()["validation_slot_accuracy"]
    assert gauge.name == "sweep_validation_slot_accuracy"
    wanted = ("validation_slot_accuracy",)
    assert Search(strategy="tpe", num_samples=4, objectives=wanted).objectives == wanted
    assert {"slot_accuracy", "validation_slot_accuracy"} <= set(
        figures.listed_figures()
    )


def test_what_is_not_registered_is_for_the_curator():
    for name in (
        "train_accuracy",
        "member_loss_mean",
        "mia_new_auc",
        "slot_accuracy",
        "",
    ):
        assert not figures.is_public(name)


def test_nothing_computed_from_gradients_or_by_attacks_is_public():
    private = (
        "train_",
        "gradient",
        "clip_",
        "nonfinite",
        "mia_",
        "leakage",
        "delta_mia",
    )
    estimates = ("epsilon_lower_bound", "epsilon_estimate")
    for name, figure in figures.registry().items():
        if name.startswith((*private, *estimates)):
            assert not figure.is_public, name
            assert "curator" in figure.help


def test_a_figure_brings_its_kin():
    ser = figures.registry()["ser"]
    assert not ser.objective, "a search by test error would make it optimistic"
    assert figures.registry()["validation_ser"].objective
    assert figures.registry()["validation_ser"].per_epoch
    assert figures.registry()["ser_low"].better == "neither"
    assert figures.label("mauve_states_human_ceiling") == "MAUVE of human text"


def test_one_name_is_one_figure(monkeypatch):
    module = importlib.import_module("trainables.result")
    twice = (*module.FIGURES, figures.Figure(name="ser", label="SER"))
    monkeypatch.setattr(module, "FIGURES", twice)
    with pytest.raises(RuntimeError, match="ser is registered twice"):
        figures.registry.__wrapped__()
