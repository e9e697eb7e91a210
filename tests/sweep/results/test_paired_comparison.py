"""Two sides beside each other: the second against the first, over what both have
run.
"""

from dataclasses import replace

import numpy as np
import pytest

from search_spaces.space import rename
from sweep.results.comparison import compare, sentences, side
from sweep.store import sweeps as store
from sweep.store.plans import Plan
from tests.refusals import refused
from tests.sweep.store.test_sweep_folder import TRIAL, result
from tests.sweep.sweeps import space_in
from trainables import saved_predictions
from trainables.config.trial import parse
from trainables.data.records import Frame
from trainables.metrics import count_frames
from trainables.metrics._counts import NAMES, from_table


def sweep_of(home, name, *sers, created=1.0):
    """A sweep whose trials have these test SERs, and more epsilon the less; None: it
    has not run.

    What a worker computes at once tells the groups apart.
    """
    training = {"epochs": 3}
    trials = tuple(
        replace(
            TRIAL,
            id=f"{name}{n}",
            variant=f"trial {n}",
            origin=parse(
                {"engine": "sgd", "training": training | {"physical_batch_size": n + 1}}
            ),
        )
        for n in range(len(sers))
    )
    space = rename(space_in(home.parent), name)
    about = {
        "command": ["sweep", "run"],
        "git_commit": None,
        "versions": {},
        "machine": "x86_64",
    }
    about |= {"created": created}
    folder = store.create(home, space, Plan(name=name, trials=trials), about=about)
    for trial, ser in zip(trials, sers, strict=True):
        if ser is not None:
            folder.start_trial(trial)
            metrics = {"ser": ser, "validation_ser": ser, "epsilon": 1 / max(ser, 0.01)}
            folder.finish_trial(
                result(trial_id=trial.id, metrics=metrics), when=1.0, reason=""
            )
    return folder


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def test_a_sweep_is_represented_by_its_best_trial_and_a_trial_by_itself(home):
    sweep_of(home, "one", 0.3, 0.2, 0.4)
    assert side(home, "one").name == "one:one1"
    assert side(home, "one:one2").name == "one:one2"
    assert side(home, "one", epsilon_max=3.5).name == "one:one0"


@pytest.mark.parametrize(
    ("text", "limit", "line"),
    [
        ("other", None, "no sweep named other"),
        ("one:zz", None, "the id of a trial of one, got 'zz': 0 trials"),
        ("one:one1", None, r"expected a finished trial, got one1 \(planned\)"),
        (
            "one:one0",
            3.0,
            "the name of a sweep with epsilon-max=3, .* got the trial one:one0",
        ),
        ("one", 1e-6, "epsilon"),
    ],
)
def test_what_stands_for_no_side_is_refused(home, text, limit, line):
    sweep_of(home, "one", 0.3, None)
    with refused(line):
        side(home, text, epsilon_max=limit)


def test_every_figure_of_either_side_is_beside_the_other(home):
    one = sweep_of(home, "one", 0.25)
    sweep_of(home, "two", 0.2)
    panel = {"metrics": {"mia_loss_threshold_auc": 0.6}, "notes": [], "violation": None}
    one.write_panel("one0", panel)
    found = compare(side(home, "one"), side(home, "two"))
    assert found.figures["ser"] == (0.25, 0.2)
    assert found.figures["epsilon"] == (4.0, 5.0)
    assert found.figures["mia_loss_threshold_auc"] == (0.6, None)
    assert found.paired is None, "no test counts were stored"


@pytest.mark.parametrize(
    ("records", "line"),
    [
        (np.arange(4), "SER has no change in percent, because A makes too few errors."),
        (
            np.arange(4) + 1,
            "SER is not paired: the two were not tested on the same utterances.",
        ),
    ],
)
def test_why_there_is_no_change_of_ser(home, records, line):
    folder = sweep_of(home, "one", 0.25, 0.25)
    row = [int(name in ("utterances", "reference_intents")) for name in NAMES]
    wrong = [
        int(bool(n) or name == "intent_errors")
        for n, name in zip(row, NAMES, strict=True)
    ]
    counts = from_table(np.array([row, row, row, wrong]))
    saved_predictions.write_counts(folder.trial_folder("one0"), np.arange(4), counts)
    saved_predictions.write_counts(folder.trial_folder("one1"), records, counts)
    found = compare(*(side(home, f"one:one{n}") for n in range(2)))
    assert found.paired is None
    assert sentences(found) == [line]


def test_a_comparison_is_paired_over_the_same_utterances(home):
    folder = sweep_of(home, "one", 0.25, 0.5, 0.0)
    truth = [Frame("call", (("contact", i, i + 1),)) for i in range(200)]
    for number, every in enumerate((4, 2, 1000)):
        said = [
            Frame("text", f.slots) if i % every == every - 1 else f
            for i, f in enumerate(truth)
        ]
        place = folder.trial_folder(f"one{number}")
        saved_predictions.write_counts(place, np.arange(200), count_frames(truth, said))
    a, b, right = (side(home, f"one:one{n}") for n in range(3))
    change, low, high = compare(a, b).paired
    assert change == pytest.approx(100.0)
    assert 50 < low < 100 < high
    assert compare(a, a).paired == (0.0, 0.0, 0.0)
    found = compare(right, b)
    assert found.paired is None
    assert sentences(found) == [
        "SER has no change in percent, because A makes no error."
    ]
