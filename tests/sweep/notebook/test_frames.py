"""A sweep and a plan as frames: every row, every figure, and what has not run is empty."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweep import notebook
from sweep.notebook import Sweep
from sweep.planning.prepare import prepare_space
from sweep.settings import Settings
from sweep.store import sweeps as store
from sweep.store.plans import PlannedTrial
from sweep.store.sweeps import SweepFolder
from tests.sweep.sweeps import settings_in, space_in
from trainables.errors import InvalidInput
from trainables.result import EpochReport, TrialResult

Z0 = "privacy.noise_multiplier"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path)


@pytest.fixture
def folder(settings: Settings) -> SweepFolder:
    """An SGD baseline and eDP-SGD with noise 0.5, 1 and 2, of which nothing has run."""
    variants = [
        {"name": "sgd", "baseline": True, "set": {"engine": "sgd"}, "drop_axes": "all"},
        {"name": "edp", "axes": {Z0: [0.5, 1.0, 2.0]}},
    ]
    prepared = prepare_space(space_in(settings.data_dir, variants=variants), settings=settings)
    return store.create(settings.home, prepared.space, prepared.plan, about={})


def finish(folder: SweepFolder, trial: PlannedTrial, ser: float, **metrics: float) -> None:
    """Two epochs and a result; the validation figures are those of the last epoch."""
    folder.start_trial(trial)
    for number in (1, 2):
        figures = {"validation_ser": ser + 0.1 * (2 - number)}
        report = EpochReport(epochs_done=number, seconds=0.5 * number, metrics=figures)
        folder.add_epoch(trial.id, report, when=float(number))
    epsilon = math.inf if trial.epsilon is None else trial.epsilon
    result = TrialResult(
        trial_id=trial.id,
        epochs_done=2,
        stopped_early=False,
        metrics={"ser": ser, "validation_ser": ser, "epsilon": epsilon, **metrics},
        privacy={},
    )
    folder.finish_trial(result, when=3.0, reason="")


@pytest.fixture
def done(folder: SweepFolder, settings: Settings) -> Sweep:
    """The sweep at its end: less noise is better."""
    for trial, ser in zip(folder.plan().trials, (0.1, 0.2, 0.3, 0.4), strict=True):
        finish(folder, trial, ser)
    return notebook.load("toy", settings=settings)


def test_a_sweep_is_loaded_by_its_name_and_an_unknown_one_is_refused(
    done: Sweep, settings: Settings
) -> None:
    assert repr(done) == "Sweep('toy', 4 trials)"
    assert (done.name, done.settings) == ("toy", settings)
    with pytest.raises(InvalidInput, match=r"no sweep named other .* there are: toy"):
        notebook.load("other", settings=settings)


def test_trials_are_rows_in_the_order_of_the_plan(done: Sweep) -> None:
    frame = done.trials()
    assert list(frame.index) == [trial.id for trial in done.folder.plan().trials]
    assert list(frame["status"]) == ["done"] * 4
    assert list(frame[Z0].iloc[1:]) == [0.5, 1.0, 2.0]
    assert math.isnan(frame[Z0].iloc[0]), "the baseline has no noise"
    assert list(frame["ser"]) == [0.1, 0.2, 0.3, 0.4]
    assert frame.columns.is_unique


def test_what_has_not_run_is_a_row_without_figures(folder: SweepFolder) -> None:
    """And the same object shows what has ended since."""
    sweep = Sweep(folder)
    frame = sweep.trials()
    assert list(frame["status"]) == ["planned"] * 4
    assert "ser" not in frame or frame["ser"].isna().all()
    trial = folder.plan().trials[1]
    assert sweep.epochs(trial.id).empty
    finish(folder, trial, 0.3)
    assert list(sweep.trials()["status"]) == ["planned", "done", "planned", "planned"]


def test_epochs_are_rows_by_their_number(done: Sweep) -> None:
    """By the beginning of the trial's id, too."""
    trial = done.folder.plan().trials[1]
    frame = done.epochs(trial.id[:8])
    assert list(frame.index) == [1, 2]
    assert frame["validation_ser"].tolist() == pytest.approx([0.3, 0.2])
    assert frame["seconds"].tolist() == [0.5, 1.0]
    with pytest.raises(InvalidInput, match="the id of a trial of toy, got 'zz'"):
        done.epochs("zz")


def test_an_infinite_figure_of_an_epoch_is_a_number(folder: SweepFolder) -> None:
    trial = folder.plan().trials[0]
    folder.start_trial(trial)
    report = EpochReport(epochs_done=1, seconds=1.0, metrics={"epsilon": math.inf})
    folder.add_epoch(trial.id, report, when=1.0)
    assert Sweep(folder).epochs(trial.id)["epsilon"].tolist() == [math.inf]


def test_the_front_is_rows_of_the_trials(done: Sweep) -> None:
    """Less noise is better here, so each trial buys something with its epsilon."""
    front, all_trials = done.front(), done.trials()
    assert set(front.index) <= set(all_trials.index)
    assert list(front.columns) == list(all_trials.columns)
    private = [trial.id for trial in done.folder.plan().trials if not trial.baseline]
    assert sorted(front["ser"][front.index.isin(private)]) == [0.2, 0.3, 0.4]


def test_the_best_within_a_budget_is_the_best_that_it_permits(done: Sweep) -> None:
    half, one, two = done.folder.plan().trials[1:]
    assert [record.plan.id for record in done.best()] == [half.id]
    assert one.epsilon is not None
    (found,) = done.best(epsilon_max=one.epsilon)
    assert found.plan.id == one.id
    assert two.epsilon is not None
    with pytest.raises(InvalidInput):
        done.best(epsilon_max=two.epsilon / 2)


def test_importance_is_shares_or_nothing_where_too_little_is_known(
    done: Sweep, folder: SweepFolder
) -> None:
    found = done.importance()
    assert found.name == "share"
    assert (found.empty and not found.attrs) or found.sum() == pytest.approx(1.0)
    for sentence in done.advice():
        assert isinstance(sentence, str)
        assert "\n" not in sentence


def test_two_sides_of_one_sweep_are_compared_by_their_figures(done: Sweep) -> None:
    half, one, _ = done.folder.plan().trials[1:]
    found = notebook.compare(f"toy:{half.id}", f"toy:{one.id}", settings=done.settings)
    frame = found.frame()
    assert frame.loc["ser"].tolist() == [0.2, 0.3]
    assert frame.loc["epsilon"].iloc[0] == half.epsilon


def test_a_plan_without_trials_is_an_empty_frame(settings: Settings) -> None:
    search = {"strategy": "tpe", "num_samples": 3, "objectives": ["validation_ser"]}
    axes: dict[str, Any] = {Z0: [1.0, 2.0]}
    space = space_in(settings.data_dir, variants=[], axes=axes, search=search)
    planned = notebook.plan(space.document(), settings=settings)
    frame = planned.trials()
    assert frame.empty
    assert frame.index.name == "trial"
    assert "3 configurations are chosen" in " ".join(planned.notes)
    assert repr(planned) == "Planned('toy', 0 to run, 0 refused)"
    assert "3 configurations" in planned._repr_html_()
    # Its sweep before the first suggestion.
    prepared = planned.prepared
    begun = store.create(settings.home, prepared.space, prepared.plan, about={})
    sweep = Sweep(begun, settings=settings)
    for frame in (sweep.trials(), sweep.front()):
        assert frame.empty
        assert frame.index.name == "trial"


def test_a_table_of_many_trials_is_cut_and_its_frame_is_not(folder: SweepFolder) -> None:
    trial = folder.plan().trials[1]
    many = tuple(replace(trial, id=f"t{n:03}", name=f"trial {n}") for n in range(70))
    plan = replace(folder.plan(), trials=many)
    folder.replace_plan(folder.space(), plan)
    sweep = Sweep(folder)
    assert len(sweep.trials()) == 70
    assert sweep._repr_html_().count("<tr>") < 60
