"""What a table runs: names that follow the settings, points, seeds, pairs."""

from __future__ import annotations

from typing import Any

import pytest

from search_spaces.expansion import expand
from sweep.reproduction import changes, description, stages, steps
from sweep.reproduction.description import Pair, Point, Table
from trainables.config import TargetEpsilon, TrialConfig
from trainables.errors import InvalidInput

ATIS = Pair(corpus="atis", model="clc")
PLAIN = ("sgd", "sgd_unclipped", "heads_plain")


def table(**wanted: Any) -> Table:
    return changes.with_changes(description.read("table1"), **wanted)


def names(found: Table, pair: Pair = ATIS) -> list[str]:
    best = {decay: points[0] for decay, points in found.decays.items()}
    each = [stages.coarse(found, pair, decay) for decay in found.decays]
    return [stage.name for stage in [*each, stages.full(found, pair, best)]]


def test_the_shipped_table_has_the_points_and_seeds_of_the_paper() -> None:
    found = table()
    for decay, points in found.decays.items():
        assert len(set(points)) == len(points) == 12
        for point in points:
            assert 0.1 <= point.c <= 5
            assert 1e-6 <= point.z0 <= 1
            assert (point.tau > 0) == (decay != "none")
    for corpus, points in (("atis", 12), ("snips", 6), ("nlu_eval", 6)):
        pair = Pair(corpus=corpus, model="bert")
        for decay in found.decays:
            assert len(expand(stages.coarse(found, pair, decay).space).points) == points


def test_a_section_that_is_set_keeps_a_field_that_is_set_before_it() -> None:
    given = {"evaluation.bootstrap_samples": 7, "evaluation": {"attacks": []}}
    assert table(assignments=given).base["evaluation"] == {"bootstrap_samples": 7, "attacks": []}


def test_every_trial_of_every_pair_is_a_config() -> None:
    found = table()
    for pair in description.pairs(found, corpora=list(found.corpora)):
        best = {decay: points[0] for decay, points in found.decays.items()}
        full = stages.full(found, pair, best)
        trials = expand(full.space).points
        assert [p.reason for p in trials] == [None] * len(trials)
        seeds = found.corpora[pair.corpus].seeds or found.seeds
        assert len(trials) == seeds * len(full.methods)
        private = [p.config for p in trials if full.methods[p.variant] in found.decays]
        assert {c.training.num_workers for c in private if c is not None} == {8}


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": 5},
        {"assignments": {"training.learning_rate": 0.01}},
        {"assignments": {"model.dropout": 0.2}},
        {"assignments": {"privacy.delta": 1e-5}},
        {"smoke": True},
    ],
    ids=lambda each: next(iter(each)),
)
def test_changed_settings_make_other_sweeps(changes: dict[str, Any]) -> None:
    before, after = names(table()), names(table(**changes))
    assert not set(before) & set(after)
    assert names(table(**changes)) == after


def configs(found: Table, pair: Pair = ATIS) -> dict[str, TrialConfig]:
    """A trial of each method of the full stage, by the method's name."""
    best = {decay: points[0] for decay, points in found.decays.items()}
    full = stages.full(found, pair, best)
    points = expand(full.space).points
    assert [p.reason for p in points] == [None] * len(points)
    return {full.methods[p.variant]: p.config for p in points if p.config is not None}


def test_fields_of_privacy_reach_the_rows_that_have_their_own() -> None:
    found = configs(table(assignments={"privacy.delta": 1e-6}))
    private = {name: config.privacy.delta for name, config in found.items() if name not in PLAIN}
    assert private == dict.fromkeys(["none", "linear", "exponential", "dp", "heads"], 1e-6)


def test_clip_norm_and_noise_are_those_of_the_rows_without_points() -> None:
    target = "privacy.noise_multiplier.target_epsilon"
    asked = table(assignments={target: 3, "privacy.max_grad_norm": 0.25})
    before, after = configs(table()), configs(asked)
    for name in ("dp", "heads"):
        privacy = after[name].privacy
        assert (privacy.noise_multiplier, privacy.max_grad_norm) == (
            TargetEpsilon(target_epsilon=3),
            0.25,
        )
    others = before.keys() - {"dp", "heads"}
    assert {n: before[n].id for n in others} == {n: after[n].id for n in others}
    # No trial of a coarse pass changes, so none is run again.
    assert names(asked) == names(table())


def test_fields_of_data_reach_the_corpora() -> None:
    pair = Pair(corpus="communication", model="clc")
    asked = table(assignments={"data.num_utterances": 2_000, "data.split": "bernoulli"})
    for config in configs(asked, pair).values():
        assert config.data.num_utterances == 2_000
        assert config.data.split == "bernoulli"
    assert names(asked, pair) != names(table(), pair)


@pytest.mark.parametrize(
    ("path", "instead"),
    [
        ("data.name", "--data"),
        ("data", "--data"),
        ("model.name", "--model"),
        ("model", "--model"),
        ("engine", "--method"),
        ("privacy.noise_decay.tau", "--method"),
        ("training.epochs", "--epochs"),
        ("training.seed", "--seeds"),
    ],
)
def test_what_rows_differ_in_is_not_set_by_a_field(path: str, instead: str) -> None:
    with pytest.raises(InvalidInput, match=f"expected {instead} in place of --set {path}:"):
        table(assignments={path: 1})


def test_other_epochs_of_the_coarse_pass_leave_the_full_stage() -> None:
    found = table()
    other = found.model_copy(update={"coarse": found.coarse.model_copy(update={"epochs": 5})})
    before, after = names(found), names(other)
    assert before[-1] == after[-1]
    assert not set(before[:-1]) & set(after[:-1])


def test_a_pair_has_a_coarse_pass_of_its_own() -> None:
    """NLU-EVAL's CLC learns too late for the table's; a command line bounds and changes both."""
    late, other = Pair(corpus="nlu_eval", model="clc"), Pair(corpus="nlu_eval", model="bert")
    found = table()
    assert (found.coarse_of(other), found.coarse_of(ATIS)) == (found.coarse, found.coarse)
    own = found.coarse_of(late)
    assert (own.epochs, own.fixed) == (12, found.coarse.fixed)
    assert own.search == {**found.coarse.search, "grace_epochs": 8}
    space = stages.coarse(found, late, "linear").space
    assert {p.config.training.epochs for p in expand(space).points if p.config} == {12}
    assert table(epochs=4).coarse_of(late).epochs == table(epochs=4).coarse.epochs == 4
    assert table(epochs=9).coarse_of(late).epochs == 9
    wide = table(assignments={"search.grace_epochs": 3})
    assert {wide.coarse_of(each).search["grace_epochs"] for each in (late, ATIS)} == {3}
    assert table(smoke=True).coarse_of(late) == table(smoke=True).coarse


@pytest.mark.parametrize("changes", [{"seeds": 5}, {"points": 3}])
def test_more_points_or_seeds_extend_the_same_sweeps(changes: dict[str, Any]) -> None:
    assert names(table(**changes)) == names(table())


def test_another_row_extends_the_full_stage() -> None:
    found = table()
    rows = {n: m for n, m in found.methods.items() if n != "heads"}
    assert names(found.model_copy(update={"methods": rows})) == names(found)


def test_fewer_methods_are_of_the_same_sweep_and_keep_the_baseline() -> None:
    found = table()
    fewer = description.with_methods(found, [ATIS], ["dp", "linear"])
    assert names(fewer) == names(found)
    each = steps.steps(fewer, [ATIS], leakage=False)
    assert [(s.part, s.decay) for s in each] == [("coarse", "linear"), ("full", None)]
    best = {"linear": found.decays["linear"][0]}
    assert list(stages.full(fewer, ATIS, best).methods.values()) == ["sgd", "linear", "dp"]
    with pytest.raises(InvalidInput, match="--method"):
        description.with_methods(found, [ATIS], ["lineer"])


def test_another_best_point_extends_the_full_stage() -> None:
    found = table()
    first, second = (
        stages.full(found, ATIS, {decay: points[at] for decay, points in found.decays.items()})
        for at in (0, 1)
    )
    assert first.name == second.name
    ids = [{p.config.id for p in expand(s.space).points if p.config} for s in (first, second)]
    # The trials without a point are the same ones: SGD twice, DP-SGD and two kinds of heads.
    assert len(ids[0] & ids[1]) == 5 * found.seeds
    assert len(ids[0] - ids[1]) == 3 * found.seeds


def test_made_corpora_take_the_points_of_atis() -> None:
    found = table()
    pairs = description.pairs(found, corpora=["communication"])
    assert pairs == [Pair(corpus="communication", model="clc")]
    each = steps.steps(found, pairs, leakage=False)
    assert [(s.pair.corpus, s.part) for s in each] == [
        *[("atis", stages.COARSE)] * 3,
        ("communication", stages.FULL),
    ]


def test_stages_of_shared_points_are_one() -> None:
    found = table()
    pairs = description.pairs(found, corpora=["atis", "communication"], models=["clc"])
    assert len(steps.steps(found, pairs, leakage=False)) == 5


def test_default_pairs_are_the_public_corpora_with_both_models() -> None:
    pairs = description.pairs(table())
    assert [p.name for p in pairs] == [
        *("atis-clc", "atis-bert", "snips-clc", "snips-bert", "nlu-eval-clc", "nlu-eval-bert")
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"corpora": ["atos"]}, "--data"),
        ({"models": ["gpt"]}, "--model"),
        ({"corpora": ["communication"], "models": ["bert"]}, "pair"),
    ],
)
def test_unknown_pairs_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        description.pairs(table(), **given)


def test_the_leakage_stage_has_a_coin_for_each_record() -> None:
    found = table()
    stage = stages.leakage(found, ATIS, "linear", {"linear": Point(c=1, z0=0.01, tau=0.1)})
    configs = [p.config for p in expand(stage.space).points if p.config is not None]
    assert {c.data.split for c in configs} == {"bernoulli"}
    assert len(configs) == 2 * found.leakage.seeds
    assert set(stage.methods.values()) == {"sgd", "linear"}
