"""Choosing among finished trials: by groups over seeds and within a budget, not by
luck.
"""

import math
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.results import select, utility_gap
from sweep.results.frame import rows
from sweep.results.tables.trials import results_table
from sweep.store.plans import PlannedTrial
from sweep.store.state import TrialStatus
from sweep.store.sweeps import TrialRecord
from tests.refusals import refused
from trainables.config.trial import parse


def record(
    name,
    *,
    group=None,
    baseline=False,
    status=TrialStatus.DONE,
    seconds=1.0,
    data="atis",
    task="nlu",
    engine="edp_sgd",
    seed=0,
    target=None,
    variant=None,
    values=None,
    **metrics,
):
    # What a worker computes at once tells the groups apart, and nothing else.
    own = {"physical_batch_size": 1 + zlib.crc32((group or name).encode()) % 10**9}
    if engine != "untrained":
        own |= {"seed": seed, "epochs": 1}
    config = {"engine": engine, "data": {"name": data}, "training": own}
    if task == "synthesis":
        config |= {
            "task": task,
            "data": {"name": "treedst"},
            "model": {"name": "causal_lm"},
        }
        config |= {"engine": "dp_sgd"} if engine == "edp_sgd" else {}
    if target is not None:
        config["privacy"] = {"noise_multiplier": {"target_epsilon": target}}
    plan = PlannedTrial(
        id=name,
        variant=variant or name,
        baseline=baseline,
        values=values or {},
        origin=parse(config),
    )
    return TrialRecord(
        plan=plan,
        status=TrialStatus(status),
        epochs_done=1,
        metrics=metrics,
        seconds=seconds,
        reason=None,
    )


def text(name, **fields):
    return record(name, task="synthesis", **fields)


def names(records):
    return [record.plan.id for record in records]


def cells(table, head):
    """The cells of the column of a table."""
    (column,) = (column for column in table.columns if column.head == head)
    return [str(cell) for cell in column.cells]


_GROUPS = [
    record("lucky", group="a", ser=0.01, epsilon=8.0),
    record("unlucky", group="a", ser=0.90, epsilon=8.0),
    record("low", group="b", ser=0.30, epsilon=7.0),
    record("middle", group="b", ser=0.31, epsilon=7.0),
    record("high", group="b", ser=0.32, epsilon=7.0),
]
_EQUAL = [
    record("dear", validation_ser=0.3, ser=0.1, epsilon=50.0),
    record("no-epsilon", validation_ser=0.3, ser=0.1),
    record("cheap", validation_ser=0.3, ser=0.2, epsilon=8.0),
    record("cheapest", validation_ser=0.4, ser=0.1, epsilon=1.0),
]
_CORPORA = [
    record("easy", data="atis", ser=0.2, epsilon=1.0),
    record("worse", data="atis", ser=0.3, epsilon=2.0),
    record("hard", data="snips", ser=0.5, epsilon=3.0),
    record("dear", data="snips", ser=0.4, epsilon=7.0),
]
_STATUSES = [
    record("sgd", baseline=True, ser=0.01, leakage=0.1),
    record("failed", status="failed", ser=0.02, leakage=0.2),
    record("stopped", status="stopped", ser=0.4, leakage=0.7, epsilon=math.inf),
    record("done", ser=0.5, leakage=0.5, epsilon=20.0),
]
_TEXTS = [
    text("poor", mauve_states=0.2, chi_square=0.1, epsilon=8.0),
    text("good", mauve_states=0.7, chi_square=0.3, epsilon=8.0),
    text("cheap", mauve_states=0.5, chi_square=0.2, epsilon=3.0),
    text("as good", mauve_states=0.7, chi_square=0.3, epsilon=9.0),
]
# before it generated text: a seed of the best configuration, and a whole one
_STOPPED = [
    text("stopped", group="a", status="stopped", epsilon=1.0),
    text("alone", status="stopped", epsilon=1.0),
    text("best", group="a", mauve_states=0.7, epsilon=8.0),
    text("poor", mauve_states=0.2, epsilon=8.0),
]


@pytest.mark.parametrize(
    ("records", "how", "chosen"),
    [
        (
            _GROUPS,
            {},
            ["middle"],
        ),  # the mean of its group is least, and it is the median
        (_GROUPS, {"best": "pareto"}, ["middle"]),
        (_EQUAL, {}, ["cheap"]),  # by validation, then by epsilon
        (_EQUAL, {"best": "ser", "epsilon_max": 2}, ["cheapest"]),
        (_CORPORA, {}, ["easy", "dear"]),  # nothing ranks one corpus above the other
        (_CORPORA, {"epsilon_max": 4}, ["easy", "hard"]),
        (_CORPORA, {"best": "pareto"}, ["easy", "hard", "dear"]),
        (_STATUSES, {}, ["stopped"]),
        (_STATUSES, {"best": "leakage"}, ["done"]),
        (_STATUSES, {"epsilon_max": 20}, ["done"]),
        (_TEXTS, {}, ["good"]),  # of MAUVE more is better
        (_TEXTS, {"epsilon_max": 3}, ["cheap"]),
        (_TEXTS, {"best": "pareto"}, ["good", "cheap"]),
        (_TEXTS, {"best": "chi_square"}, ["poor"]),
        (_STOPPED, {}, ["best"]),
    ],
)
def test_the_best_is_chosen_whatever_the_order(records, how, chosen):
    assert names(select.choose(records, **how)) == chosen
    assert sorted(names(select.choose(records[::-1], **how))) == sorted(chosen)


@pytest.mark.parametrize(
    ("records", "how", "words"),
    [
        (_STATUSES[:2], {}, "no trial other than baselines has finished"),
        (
            _STATUSES,
            {"epsilon_max": 8},
            "no .* epsilon <= 8; the smallest epsilon is 20",
        ),
        (
            _EQUAL,
            {"best": "luck"},
            "expected best to be one of ser, mauve_states, pareto or",
        ),
        (_STOPPED[:2], {}, "all have one of mauve_states"),
        (
            [record("a", slot_f1=0.1), record("b", ser=0.1)],
            {"best": "slot_f1"},
            "finished trials that all have one of slot_f1",
        ),
    ],
)
def test_where_nothing_qualifies_the_refusal_says_what_there_is(records, how, words):
    with refused(words):
        select.choose(records, **how)


def test_one_trial_is_chosen_on_one_corpus_and_each_has_its_sentence():
    assert select.choose_one(_CORPORA, epsilon_max=2).plan.id == "easy"
    with refused(r"one corpus.*atis, snips.*easy, dear"):
        select.choose_one(_CORPORA)
    said = utility_gap.sentences(_CORPORA)
    assert [words for words in said if words.startswith("at epsilon")] == [
        "at epsilon ≤ 8 on atis use easy (easy, epsilon 1): 20.0 errors in 100;"
        " no finished baseline to compare it with",
        "at epsilon ≤ 8 on snips use dear (dear, epsilon 7): 40.0 errors in 100;"
        " no finished baseline to compare it with",
    ]


def test_validation_decides_where_every_candidate_has_it():
    assert select.metric_of_choice(_EQUAL, "ser") == "validation_ser"
    assert select.metric_of_choice([*_EQUAL, record("old", ser=0.3)], "ser") == "ser"


def test_ratios_are_to_the_mean_of_the_baseline_on_the_same_data():
    records = [
        record("sgd", group="base", baseline=True, ser=0.1),
        record("sgd2", group="base", baseline=True, ser=0.3),
        record("other", baseline=True, data="snips", ser=10.0),
        record("edp", ser=0.5, epsilon=1.0),
        record("alone", data="health", ser=0.5),
    ]
    *_, edp, alone = rows(records)
    assert edp.ratios == {"ser": pytest.approx(2.5), "seconds": 1.0}
    assert (alone.ratios, alone.baseline) == ({}, None)


def test_the_spread_of_a_group():
    (group,) = select.groups(
        [record(str(n), group="g", ser=float(n)) for n in (1, 2, 3)]
    )
    assert group.spread("ser") == select.MeanStd(mean=2.0, std=1.0, count=3)
    assert group.spread("nothing") is None
    (lone,) = select.groups([record("x", ser=1.0, epsilon=math.inf)])
    assert lone.spread("ser") == select.MeanStd(mean=1.0, std=None, count=1)
    assert lone.spread("epsilon") == select.MeanStd(mean=math.inf, std=None, count=1)


FIGURE = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, math.inf])


@given(st.lists(st.tuples(FIGURE, FIGURE), min_size=1, max_size=12))
def test_the_front_is_what_nothing_beats(points):
    records = [
        record(str(n), ser=ser, epsilon=eps) for n, (ser, eps) in enumerate(points)
    ]
    lacking = [
        record("a", ser=0.0),
        record("b", ser=0.0, epsilon=None),
        record("c", epsilon=0.0),
    ]
    best = {int(name) for name in names(select.front([*lacking, *records]))}

    def beats(left, right):
        return left != right and left[0] <= right[0] and left[1] <= right[1]

    for n, mine in enumerate(points):
        assert (n in best) == (not any(beats(other, mine) for other in points))


UNSPENT = st.floats(0, 0.004)  # of a target, by rounding the noise up


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 3, 8]), FIGURE, UNSPENT), min_size=1, max_size=12
    )
)
def test_what_rounding_leaves_of_a_target_decides_nothing(trials):
    """Neither on a front nor between equal trials, by whatever way one is chosen."""
    target_of = {str(n): target for n, (target, _, _) in enumerate(trials)}
    made = [
        [
            record(
                str(n),
                target=target,
                ser=ser,
                mauve_states=-ser,
                epsilon=target * (1 - share * left),
            )
            for n, (target, ser, left) in enumerate(trials)
        ]
        for share in (0, 1)
    ]
    exact, rounded = (names(select.front(records)) for records in made)
    assert exact == rounded
    sers = {(target_of[name], trials[int(name)][1]) for name in rounded}
    assert len({target for target, _ in sers}) == len(sers), "one SER a target"
    for way in ("ser", "mauve_states"):
        assert (
            len({select.choose(records, best=way)[0].plan.id for records in made}) == 1
        )
    assert len({utility_gap.gap(records).best.plan.id for records in made}) == 1


def test_a_calibrated_trial_that_was_stopped_has_spent_less_than_its_target():
    whole = record("whole", target=8.0, ser=0.2, epsilon=7.9998)
    stopped = record("stopped", target=8.0, ser=0.3, epsilon=5.0)
    dearer = record("dearer", ser=0.2, epsilon=8.0)
    assert names(select.front([whole, stopped])) == ["whole", "stopped"]
    assert [select.compared(r, "epsilon") for r in (whole, stopped, dearer)] == [
        8.0,
        5.0,
        8.0,
    ]
    assert select.value(whole, "epsilon") == 7.9998, (
        "the figure of a table is the trial's own"
    )


def test_a_long_table_keeps_baselines_the_front_and_the_best():
    records = [
        record(str(n), ser=0.5 - n / 1000, epsilon=2.0 if n else 1.0, baseline=n == 50)
        for n in range(100)
    ]
    shown = results_table("many", records, max_rows=5)
    assert cells(shown, "id") == ["99", "98", "97", "50", "0"], "the best first"
    by_epsilon = results_table("many", records, max_rows=5, sort="epsilon")
    assert cells(by_epsilon, "id")[0] == "0"
    with refused("expected --sort by a figure or an axis, got 'sre'"):
        results_table("many", records, sort="sre")
    assert len(cells(results_table("many", records, max_rows=100), "id")) == 100


def test_what_is_made_of_no_record_is_a_denominator_of_every_trial_on_its_data():
    """It is no baseline to divide leakage or seconds by, also where the space calls it
    one.
    """
    prior = record("prior", baseline=True, engine="untrained", ser=0.8, epsilon=0.0)
    elsewhere = record("elsewhere", engine="untrained", data="snips", ser=0.5)
    sgd = record("sgd", baseline=True, ser=0.1)
    mine = record("mine", ser=0.2, ser_before_training=0.4, epsilon=8.0)
    records = [elsewhere, prior, sgd, mine]
    found = rows(records)
    assert [row.prior_ratio for row in found] == [None, None, 0.125, 0.25]
    assert [row.prior_ratio for row in rows([sgd, mine])] == [None, 0.5]
    assert found[-1].ratios["ser"] == pytest.approx(2.0)
    table = results_table("s", [prior, mine])
    assert cells(table, "epsilon") == ["8", "0 (prior)"]
    assert cells(table, "of ε = 0") == ["0.25", ""]


def test_a_trial_that_drew_no_bootstrap_has_no_interval():
    made = record("a", ser=0.25, ser_low=0.24, ser_high=0.26)
    bare = parse({"evaluation": {"bootstrap_samples": 0}})
    bare = replace(made, plan=replace(made.plan, origin=bare))
    assert [select.interval_of(each) for each in (made, bare)] == [(0.24, 0.26), None]
    assert cells(results_table("s", [made, bare]), "95 %") == ["0.240-0.260", ""]


def test_texts_that_are_too_few_for_the_measure_are_not_chosen():
    few = text("gibberish", mauve_states=None, word_type_overlap=0.9, epsilon=0.0)
    enough = text("good", mauve_states=0.2, word_type_overlap=0.5, epsilon=8.0)
    assert [r.plan.name for r in select.choose([few, enough])] == ["good"]
    with refused("enough texts to measure it; raise synthesis"):
        select.choose([few])
    (chosen,) = select.choose([few], best="word_type_overlap")
    assert chosen.plan.name == "gibberish"


def test_the_measure_on_ngrams_of_earlier_sweeps_still_chooses():
    before = [text(n, mauve=v, epsilon=8.0) for n, v in (("a", 0.5), ("b", 0.7))]
    now = text("c", ngram_similarity=0.6, epsilon=8.0)
    for name in ("mauve", "ngram_similarity"):
        (chosen,) = select.choose([*before, now], best=name)
        assert chosen.plan.name == "b"
