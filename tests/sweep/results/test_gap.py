"""The recommendation is a trial with a usable epsilon, compared with the baseline."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sweep.results import select
from sweep.results.export import export_best
from sweep.results.frame import rows
from sweep.results.utility_gap import gap, refusal, sentences
from sweep.tracking.mlflow_store import summary_of
from tests.refusals import refused
from tests.sweep.results.test_select import record, text
from tests.sweep.sweeps import space_in
from tests.sweep.untracked import run_untracked


def private(name, *, ser, epsilon, **more):
    return record(name, ser=ser, validation_ser=ser, epsilon=epsilon, **more)


BASE = record("sgd", ser=0.1, validation_ser=0.1, epsilon=float("inf"), baseline=True)


def test_the_best_private_trial_is_compared_with_the_baseline():
    records = [
        BASE,
        private("open", ser=0.12, epsilon=1e5),
        private("dp", ser=0.5, epsilon=8.0),
    ]
    found = gap(records)
    assert found.best is records[2]
    assert found.factor == pytest.approx(5.0)
    assert found.is_far
    assert found.sentences()[0] == (
        "at epsilon ≤ 8 use dp (dp, epsilon 8): 50.0 errors in 100, 5 times the same"
        " model without privacy (sgd)"
    )


@pytest.mark.parametrize(
    ("model", "end", "ratio"),
    [
        ({"sure": 1}, "5 times the same model without privacy (sgd)", 5.0),
        ({"name": "clc", "bias": 0}, "5 times a CLC trained from scratch (sgd)", 5.0),
    ],
)
def test_a_trial_has_its_ratio_to_the_baseline_of_any_model(model, end, ratio):
    base, best = (
        of(BASE, model=model),
        of(private("dp", ser=0.5, epsilon=8.0), model={}),
    )
    assert gap([base, best]).sentences()[0].endswith(end)
    assert rows([base, best])[1].ratios == {"ser": ratio, "seconds": 1.0}


def test_the_headline_names_the_same_model_first_and_one_other():
    clc = of(BASE, model={"name": "clc", "bias": 0})
    heads = private("heads", ser=0.25, epsilon=math.inf, baseline=True)
    best = private("dp", ser=0.5, epsilon=8.0)
    (sentence, *_) = sentences([clc, heads, best])
    assert sentence.endswith(
        ", 2 times the same model without privacy (heads), 5 times a CLC trained from scratch (sgd)"
    )


def test_a_private_model_that_learned_nothing_is_not_recommended():
    """The empty prediction has an SER of 1, and an untrained model may have less."""
    bad = private("dp", ser=1.6, epsilon=8.0)
    first, second, third = sentences([BASE, bad])
    assert first == "no private model is useful yet"
    assert second.startswith("what would help: public pretraining")
    assert third.endswith("a model that learned nothing has SER 1.0000")
    prior = record("p", baseline=True, engine="untrained", ser=0.4, epsilon=0.0)
    assert sentences([BASE, prior, private("dp", ser=0.5, epsilon=8.0)])[0] == first
    assert gap([BASE, prior, private("dp", ser=0.3, epsilon=8.0)]).is_useful


def test_texts_no_better_than_random_words_are_not_recommended():
    at_random = {"mauve_states_random_words": 0.03, "epsilon": 8.0}
    gibberish = text("gibberish", mauve_states=0.02, **at_random)
    assert sentences([gibberish])[0] == "no private model is useful yet"
    assert gap([text("good", mauve_states=0.2, **at_random)]).is_useful


def test_a_baseline_that_learned_nothing_is_the_first_line():
    base = replace(BASE, metrics={**BASE.metrics, "ser": 1.0})
    first, second = sentences([base, private("dp", ser=0.5, epsilon=8.0)])
    assert first.startswith("the baseline sgd learned nothing (SER 1.0000)")
    assert second.startswith("at epsilon ≤ 8 use dp")


def of(made, **fields):
    """A trial of another config."""
    return replace(made, plan=replace(made.plan, origin={**made.plan.fields, **fields}))


def test_a_baseline_on_other_data_of_the_same_kind_is_no_reference():
    base, best = (
        of(made, data={"name": "json_lines", "path": f"/{place}/mine.jsonl"})
        for made, place in (
            (BASE, "elsewhere"),
            (private("dp", ser=0.5, epsilon=8.0), "here"),
        )
    )
    found = gap([base, best])
    assert (found.best, found.baselines) == (best, ())
    assert found.sentences()[0].endswith("; no finished baseline to compare it with")


def test_trials_without_a_common_figure_are_not_said_to_lack_a_small_epsilon():
    """A small epsilon is there; what is missing is a figure that both trials have."""
    records = [
        record("dp", validation_ser=0.5, epsilon=8.0),
        record("dp7", ser=0.4, epsilon=7.0),
    ]
    with refused("that all have one of validation_ser, validation_errors, ser"):
        gap(records)
    assert sentences(records) == []


def test_a_near_trial_needs_no_help_and_a_public_start_is_not_advised_twice():
    near, scratch = (private("dp", ser=ser, epsilon=8.0) for ser in (0.19, 0.5))
    public = of(scratch, model={"name": "bert", "encoder": "dialogues"})
    assert gap([BASE, near]).helps() == gap([BASE, public]).helps() == []
    (advice,) = gap([BASE, scratch]).helps()
    assert advice.startswith("public pretraining:")


def test_without_a_private_trial_the_smallest_epsilon_is_named():
    found = sentences(
        [BASE, private("a", ser=0.2, epsilon=202.1), private("b", ser=0.1, epsilon=5e4)]
    )
    assert (
        found[0]
        == "no finished trial has epsilon ≤ 8; the smallest epsilon is 202.1 (a a)"
    )
    assert "target_epsilon: 8" in found[1]
    assert sentences([BASE]) == []


def test_of_a_figure_where_more_is_better_the_factor_says_how_far():
    base = text("open", mauve_states=0.8, epsilon=float("inf"), baseline=True)
    found = gap([base, text("dp", mauve_states=0.2, epsilon=8.0)])
    assert found.factor == pytest.approx(4.0)
    assert found.sentences()[0].endswith(
        "MAUVE 0.2000, 0.25 times the same model without privacy (open)"
    )


def test_a_baseline_without_an_error_or_without_any_quality_has_no_factor():
    right = replace(BASE, metrics={**BASE.metrics, "ser": 0.0})
    for ser, is_far in ((0.5, True), (0.0, False)):
        found = gap([right, private("dp", ser=ser, epsilon=8.0)])
        assert found.is_far == is_far
        assert (
            found.sentences()[0]
            .partition(";")[2]
            .startswith(" 0.0000 is that of the same model")
        )


def test_a_large_epsilon_is_exported_only_on_request(tmp_path):
    records = [private("a", ser=0.2, epsilon=202.1), private("b", ser=0.3, epsilon=9.0)]
    chosen = select.choose(records)
    assert refusal(chosen, records) == (
        "expected --epsilon-max, or --any-epsilon for an epsilon above 10, which"
        " guarantees little: got 202.1 of a, a; the smallest epsilon here is 9"
    )
    assert refusal(records[1:], records) is None
    folder = run_untracked(tmp_path)
    best = export_best(folder, None)
    assert best.place is None
    assert "an epsilon above 10" in best.sentence
    assert export_best(folder, 1e9).place is not None


def test_the_end_of_a_run_over_several_corpora_names_the_command_that_exports():
    records = [
        private(name, ser=0.2, epsilon=1.0, data=name) for name in ("atis", "snips")
    ]
    folder = SimpleNamespace(name="mine", records=lambda running: records)
    for limit, options in ((None, ""), (8.0, " --epsilon-max 8")):
        best = export_best(folder, limit)
        assert (best.place, best.has_failed) == (None, False)
        assert (
            f"(`sweep export mine{options}` exports the best of each)" in best.sentence
        )


@pytest.mark.parametrize("limit", [None, 8.0])
def test_a_best_trial_whose_export_fails_is_a_failure(tmp_path, limit):
    """A small epsilon needs no limit; what is in the way is named."""
    (tmp_path / "best").mkdir()
    folder = SimpleNamespace(
        path=tmp_path, space=lambda: space_in(tmp_path),
        records=lambda running: [private("a", ser=0.2, epsilon=1.0)],
    )  # fmt: skip
    best = export_best(folder, limit)
    assert (best.place, best.has_failed) == (None, True)
    assert best.sentence.endswith("best, which exists")


def test_the_summary_in_a_tracking_store_picks_by_validation():
    """A choice by test error would make the best test error optimistic."""
    records = [
        record("lucky", ser=0.1, validation_ser=0.5, epsilon=1.0),
        record("best", ser=0.2, validation_ser=0.4, epsilon=2.0),
        replace(BASE, metrics={**BASE.metrics, "validation_ser": 0.01}),
        record("failed", status="failed", ser=0.0, validation_ser=0.0, epsilon=1.0),
    ]
    best = {"best_ser": 0.2, "best_epsilon": 2.0, "best_seconds": 1.0}
    assert summary_of(records) == best, "and no count of trials, which is no figure"
    assert "best_ser" not in summary_of(records[-1:])
