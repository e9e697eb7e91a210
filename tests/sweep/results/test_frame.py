"""One computation of every figure: the frame's change is that of `sweep compare`."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from sweep.results import comparison, frame
from sweep.results.tables.trials import results_table
from tests.sweep.results.test_select import cells, record
from trainables import saved_predictions
from trainables.metrics._counts import NAMES, from_table


@pytest.fixture
def folder(tmp_path):
    """A baseline of another model than the trial's, both with their test counts."""
    records = [
        record("sgd", baseline=True, ser=0.1, epsilon=math.inf),
        record("dp", ser=0.3, epsilon=8.0, engine="dp_sgd"),
        record("late", status="failed", epsilon=8.0, engine="dp_sgd"),
    ]
    records[1].plan.fields["model"]["hidden_size"] = 7
    rng = np.random.default_rng(0)
    for each, error in zip(records[:2], (0.1, 0.3), strict=True):
        table = np.zeros((200, len(NAMES)), dtype=np.int64)
        table[:, NAMES.index("reference_intents")] = 1
        table[:, NAMES.index("intent_errors")] = rng.random(200) < error
        (tmp_path / each.plan.id).mkdir()
        saved_predictions.write_counts(
            tmp_path / each.plan.id, np.arange(200), from_table(table)
        )
    return SimpleNamespace(
        name="mine",
        records=lambda: records,
        trial_folder=lambda trial: tmp_path / trial,
        epochs=lambda trial: [],
    )


def trials_of(folder, *, public=False):
    """The columns of a report's CSV."""
    return frame.framed(*frame.table(frame.rows(frame.read(folder)), public=public))


def test_every_surface_has_the_same_paired_change(folder):
    base, mine, failed = frame.read(folder)
    sides = [comparison.Side(folder=folder, record=each) for each in (base, mine)]
    change, low, high = comparison.compare(*sides).paired
    assert low < change < high
    assert mine.metrics["delta_ser_percent"] == change
    row = trials_of(folder).loc["dp"]
    ends = ("", "_low", "_high")
    assert [row[f"delta_ser_percent{end}"] for end in ends] == [change, low, high]
    assert (row["compared_with"], row["ser_ratio"]) == ("sgd", pytest.approx(3.0))
    shown = cells(results_table("mine", [base, mine, failed]), "Δ %")
    assert shown == ["-", f"{change:+.0f}*", "-"]
    assert "delta_ser_percent" not in base.metrics | failed.metrics


def test_a_damaged_file_leaves_the_change_out(folder, tmp_path):
    (tmp_path / "dp" / saved_predictions.COUNTS).write_bytes(b"no archive")
    assert "delta_ser_percent" not in frame.read(folder)[1].metrics


def test_a_public_frame_lacks_what_the_curator_alone_may_see(folder):
    folder.records()[1].metrics["leakage"] = 0.6
    whole = trials_of(folder)
    assert "leakage" in whole.attrs["curator_only"]
    public = trials_of(folder, public=True)
    assert set(whole) - set(public) >= {"leakage"}
    assert "ser" in public


def test_csv_has_infinity_and_no_formula():
    made = pd.DataFrame({"trial": ["a"], "name": ["=cmd()"], "x": [math.inf]})
    text = frame.csv_text(made.assign(b=[True]).set_index("trial"))
    assert text == "trial,name,x,b\na,'=cmd(),inf,true\n"
