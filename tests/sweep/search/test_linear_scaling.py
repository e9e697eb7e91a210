"""A search by linear scaling: its line, its stages and its total."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from search_spaces.linear_scaling import LEARNING_RATE, STAGES
from sweep.planning.prepare import Prepared, extend, prepare_space
from sweep.results.export import spend_of
from sweep.runtime import runner, worker_loop
from sweep.search.linear_scaling import line, suggest
from sweep.search.suggest import Observation
from sweep.store import sweeps as store
from tests.sweep import toy_trial
from tests.sweep.sweeps import settings_in, space_in
from tests.sweep.untracked import run_untracked, without_mlflow
from trainables.config import TrialConfig
from trainables.errors import InvalidInput
from trainables.result import EpochReport, TrialResult
from trainables.system.communication import Communicator

_TOTAL = 6.0
_HERE = "tests.sweep.search.test_linear_scaling:run"


@pytest.fixture(autouse=True)
def _no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy leaves nothing to collect, which would take half of each test."""
    monkeypatch.setattr(worker_loop.gc, "collect", lambda: 0)


def run(
    config: TrialConfig,
    *,
    folder: Path,
    comm: Communicator,
    report: Callable[[EpochReport], bool],
    data_dir: Path,
    cache_dir: Path,
) -> TrialResult:
    """The toy, whose best learning rate is the smaller the more noise there is."""
    noise = config.privacy.noise_multiplier
    assert isinstance(noise, float)
    places = {"folder": folder, "data_dir": data_dir, "cache_dir": cache_dir}
    result = toy_trial.run(config, comm=comm, report=report, **places)
    error = abs(math.log(config.training.learning_rate * noise / 0.3))
    return replace(result, metrics={**result.metrics, "validation_ser": error, "ser": error})


def _fields(**fields: Any) -> dict[str, Any]:
    return {
        "variants": [],
        # Shuffled: epsilon has a closed form, and no test waits for an accountant.
        "base": {"engine": "edp_sgd", "training": {"epochs": 2, "expected_batch_size": 30}},
        "axes": {LEARNING_RATE: {"range": {"low": 1e-3, "high": 1.0, "log": True}}},
        "budget": {"total": _TOTAL},
        **fields,
        "search": {"strategy": "linear_scaling", "num_samples": 9, **fields.get("search", {})},
    }


def _prepare(folder: Path, **fields: Any) -> Prepared:
    return prepare_space(space_in(folder, **_fields(**fields)), settings=settings_in(folder))


def test_the_line_goes_through_both_points_and_beyond() -> None:
    points = [(0.5, 0.01), (1.0, 0.03)]
    assert [line(points, at=at) for at in (0.5, 1.0, 8.0)] == pytest.approx([0.01, 0.03, 0.31])


def test_probes_are_spread_over_the_range_and_the_last_run_is_on_their_line(
    tmp_path: Path,
) -> None:
    space = _prepare(tmp_path).space
    epsilons = dict(zip(STAGES, (0.3, 0.6, 5.0), strict=True))
    best = {"probe-1": 0.01, "probe-2": 0.02}
    observations: list[Observation] = []
    for _ in range(8):
        found = suggest(space, observations, epsilon_of=lambda b: epsilons[b.variant.name])
        rate = found.values[LEARNING_RATE]
        error = abs(math.log(rate / best[found.variant.name]))
        observations.append(
            Observation(
                variant=found.variant.name,
                values=found.values,
                state="done",
                objectives=(error,),
            )
        )
    assert [one.variant for one in observations] == ["probe-1"] * 4 + ["probe-2"] * 4
    rates = [one.values[LEARNING_RATE] for one in observations[:4]]
    assert rates == [one.values[LEARNING_RATE] for one in observations[4:]]
    steps = [math.log10(b / a) for a, b in pairwise(rates)]
    assert steps == pytest.approx([0.75] * 3, rel=0.01)  # three decades, four probes
    last = suggest(space, observations, epsilon_of=lambda b: epsilons[b.variant.name])
    chosen = [min(observations[i : i + 4], key=lambda one: one.objectives) for i in (0, 4)]
    points = [(epsilons[one.variant], float(one.values[LEARNING_RATE])) for one in chosen]
    assert last.variant.name == "last"
    expected = min(1.0, line(points, at=5.0))
    assert last.values[LEARNING_RATE] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("high", "expected"), [(0.02, 0.02), (1.0, 0.31)])
def test_the_last_run_stays_within_the_axis(tmp_path: Path, high: float, expected: float) -> None:
    axes = {LEARNING_RATE: {"range": {"low": 1e-3, "high": high}}}
    space = _prepare(tmp_path, axes=axes).space
    epsilons = dict(zip(STAGES, (0.5, 1.0, 8.0), strict=True))
    observations = [
        Observation(variant=name, values={LEARNING_RATE: rate}, state="done", objectives=(0.0,))
        for name, rate in (("probe-1", 0.01), ("probe-2", 0.03))
        for _ in range(4)
    ]
    last = suggest(space, observations, epsilon_of=lambda b: epsilons[b.variant.name])
    assert last.values[LEARNING_RATE] == pytest.approx(expected)


def test_a_stage_without_a_result_gives_no_line(tmp_path: Path) -> None:
    space = _prepare(tmp_path).space
    observations = [
        Observation(variant=name, values={LEARNING_RATE: 0.01}, state="failed")
        for name in STAGES[:2]
        for _ in range(4)
    ]
    with pytest.raises(InvalidInput, match="expected a finished trial of probe-1, got none"):
        suggest(space, observations, epsilon_of=lambda branch: 1.0)


def test_the_stages_cost_their_shares_and_all_of_them_the_total(tmp_path: Path) -> None:
    axes = {LEARNING_RATE: {"range": {"low": 4e-3, "high": 4e-2, "log": True}}}
    folder = run_untracked(tmp_path, function=_HERE, **_fields(axes=axes))
    trials = folder.plan().trials
    assert [trial.variant for trial in trials] == ["probe-1"] * 4 + ["probe-2"] * 4 + ["last"]
    for trial, share in ((trials[0], 0.05), (trials[4], 0.1)):
        assert trial.epsilon == pytest.approx(share * _TOTAL, rel=0.01)
    total, _ = spend_of(folder)
    assert total is not None
    assert 0.99 * _TOTAL <= total.epsilon <= _TOTAL
    assert total.num_releases == 9
    assert not total.unaccounted  # no filter: what is chosen changes no release
    last = trials[-1]
    assert last.epsilon is not None
    assert last.epsilon > 0.9 * _TOTAL
    records = {record.plan.id: record for record in folder.records()}
    assert all(record.status == "done" for record in records.values())

    def best(stage: str) -> tuple[float, float]:
        mine = [r for r in records.values() if r.plan.variant == stage]
        found = min(mine, key=lambda r: r.metrics["validation_ser"] or 0.0)
        return found.plan.epsilon or 0.0, found.plan.values[LEARNING_RATE]

    rate = line([best("probe-1"), best("probe-2")], at=last.epsilon)
    assert last.values[LEARNING_RATE] == pytest.approx(min(rate, 4e-2), rel=1e-3)
    assert best("probe-1")[1] < best("probe-2")[1] < last.values[LEARNING_RATE]


def test_an_interrupted_search_resumes_to_the_same_last_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = _fields(search={"num_samples": 5})
    whole = run_untracked(tmp_path / "whole", function=_HERE, **fields)
    place = tmp_path / "cut"
    calls = iter(range(1_000))

    def stop(folder: Path, rank: int, epoch: int) -> None:
        if next(calls) == 5:  # in the third of five trials
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(toy_trial, "_fault", stop)
        with pytest.raises(KeyboardInterrupt):
            run_untracked(place, function=_HERE, **fields)
    folder = store.open_sweep(settings_in(place).home, "toy")
    assert len(folder.plan().trials) == 3
    with without_mlflow():
        runner.resume(folder, settings_in(place), function=_HERE)
    values = [[trial.values for trial in each.plan().trials] for each in (whole, folder)]
    assert values[0] == values[1]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"budget": {}}, "expected budget.total with strategy linear_scaling"),
        ({"search": {"num_samples": 6}}, "expected an odd num_samples of at least 5"),
        ({"search": {"num_samples": 3}}, "expected an odd num_samples of at least 5"),
        ({"search": {"probe_shares": [0.2, 0.1]}}, "expected rising probe_shares"),
        ({"search": {"probe_shares": [0.9, 0.95]}}, "8 other trials cost"),
        ({"search": {"scheduler": "asha"}}, "expected no scheduler"),
        ({"axes": {LEARNING_RATE: [0.1, 0.2]}}, "expected one axis, a range of"),
        ({"axes": {"privacy.max_grad_norm": [1.0]}}, "expected one axis, a range of"),
        ({"repeats": 2}, "expected no repeats"),
        ({"resources": {"executor": "gang", "slots": 2}}, "expected resources.slots auto or 1"),
        ({"variants": [{"name": "mine"}]}, "expected no variants"),
        ({"override": {LEARNING_RATE: 0.1}}, "expected no override of training.learning_rate"),
        ({"override": {"training": {"epochs": 2}}}, "of training.learning_rate .* got training$"),
        ({"override": {"privacy": {"delta": 1e-6}}}, "noise_multiplier .* got privacy$"),
        (
            {"base": {"engine": "dp_sgd", "privacy": {"noise_multiplier": 1.0}}},
            "expected no privacy.noise_multiplier",
        ),
    ],
)
def test_what_is_no_search_for_one_learning_rate_is_refused(
    tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words) as refusal:
        _prepare(tmp_path, **fields)
    assert "\n" not in str(refusal.value)


def test_probe_shares_belong_to_linear_scaling(tmp_path: Path) -> None:
    search = {"strategy": "random", "num_samples": 3, "probe_shares": [0.01, 0.02]}
    with pytest.raises(InvalidInput, match="expected probe_shares with strategy linear_scaling"):
        space_in(tmp_path, search=search)


def test_the_plan_says_what_each_stage_costs_and_takes_no_other_space(tmp_path: Path) -> None:
    prepared = _prepare(tmp_path)
    (note,) = [note for note in prepared.notes if note.startswith("linear_scaling")]
    assert note.startswith("linear_scaling: 4 trials at epsilon 0.3")
    assert note.endswith("all together at most 6.")
    folder = store.create(settings_in(tmp_path).home, prepared.space, prepared.plan, about={})
    assert folder.space() == prepared.space
    with pytest.raises(InvalidInput, match="expected no --space with strategy linear_scaling"):
        extend(folder, str(folder.path / "space.yaml"), settings=settings_in(tmp_path), accept=True)
