import numpy as np
import pytest

from trainables import catalogue, figures
from trainables.data.records import Frame
from trainables.metrics import Counts, count_frames, slot_f1
from trainables.metrics._counts import from_table, table

METRICS = [  # entries that are functions of `Counts`
    module
    for module in (
        catalogue.entry("metrics", name) for name in catalogue.names("metrics")
    )
    if getattr(getattr(module, "value", None), "__annotations__", {}).get("counts")
    is Counts
]


def _frames(seed):
    rng = np.random.default_rng(seed)
    return [
        Frame(
            str(rng.integers(3)),
            tuple((str(rng.integers(3)), i, i + 1) for i in range(rng.integers(4))),
        )
        for _ in range(60)
    ]


@pytest.fixture(params=METRICS, ids=lambda module: module.__name__.rpartition(".")[2])
def metric(request):
    return request.param


def test_the_shelf_has_the_papers_metrics():
    names = {module.__name__.rpartition(".")[2] for module in METRICS}
    assert names >= {
        "semantic_error_rate",
        "intent_accuracy",
        "frame_accuracy",
        "slot_f1",
    }
    assert slot_f1.OF_COUNTS["slot_f1_strict"] is slot_f1.strict


def test_perfect_and_worst(metric):
    truth = [Frame("a", (("s", 0, 1),))] * 5
    wrong = [Frame("b", (("t", 1, 2),))] * 5
    good = float(metric.value(count_frames(truth, truth).total()))
    bad = float(metric.value(count_frames(truth, wrong).total()))
    (name,) = (
        name for name, function in metric.OF_COUNTS.items() if function is metric.value
    )
    higher = figures.registry()[name].better == "higher"
    assert good == (1.0 if higher else 0.0)
    assert (bad < good) == higher


def test_is_elementwise_and_finite(metric):
    counts = count_frames(_frames(0), _frames(1))
    each = metric.value(counts)
    assert each.shape == (60,)
    assert np.isfinite(each).all()
    singles = [float(metric.value(from_table(row))) for row in table(counts)]
    np.testing.assert_allclose(each, singles)


def test_depends_on_the_sum_alone(metric):
    counts = count_frames(_frames(0), _frames(1))
    pieces = table(counts)[:20].sum(axis=0) + table(counts)[20:].sum(axis=0)
    assert float(metric.value(from_table(pieces))) == float(
        metric.value(counts.total())
    )


def test_no_slots_at_all_is_no_error(metric):
    empty = [Frame("a", ())] * 3
    assert np.isfinite(metric.value(count_frames(empty, empty).total()))
