"""Trials that are indistinguishable from the best: tests on test figures, never on ranks."""

import io
from dataclasses import replace
from statistics import fmean

import pytest
from rich.console import Console

from sweep.results.select import Group
from sweep.results.standing import OWN, PAIRED, SEEDS, interval_of, standing
from sweep.results.tables.trials import results_table
from tests.sweep.results.test_select import record
from trainables.config import parse


def trial(name, *, validation, ser, half, **fields):
    return record(
        name, validation_ser=validation, ser=ser, ser_low=ser - half, ser_high=ser + half, **fields
    )


def names(found):
    return [group.records[0].plan.name for group in found.indistinguishable]


def test_the_best_by_validation_is_compared_by_test_intervals():
    records = [
        trial("sgd", validation=0.1, ser=0.1, half=0.01, baseline=True),
        trial("best", validation=0.30, ser=0.33, half=0.02),
        trial("near", validation=0.31, ser=0.36, half=0.02),
        trial("better-by-test", validation=0.32, ser=0.25, half=0.02),
        trial("far", validation=0.33, ser=0.60, half=0.02),
        record("unknown", validation_ser=0.4, ser=0.33),
    ]
    found = standing(records)
    assert found.best.records[0].plan.id == "best"
    assert (found.metric, found.figure) == ("validation_ser", "ser")
    assert (names(found), found.num_significant, found.ways) == (["near"], 2, (OWN,))
    assert found.sentence() == (
        "best by validation_ser 0.3: best best; by test SER it is indistinguishable"
        " (95 % each, their own intervals) from: near"
    )


def test_pairing_decides_where_the_intervals_overlap():
    """What makes an utterance hard for both cancels: a difference shows that intervals hide."""
    records = [
        trial("best", validation=0.30, ser=0.33, half=0.1),
        trial("same", validation=0.31, ser=0.34, half=0.1),
        trial("worse", validation=0.32, ser=0.36, half=0.1),
        trial("apart", validation=0.33, ser=0.90, half=0.1),
    ]
    asked = []

    def pair(first, second):
        ((one,), (other,)) = first, second
        asked.append((one.plan.id, other.plan.id))
        return {"same": (1.0, -2.0, 4.0), "worse": (9.0, 5.0, 13.0)}[other.plan.id]

    found = standing(records, pair=pair)
    assert asked == [("best", "same"), ("best", "worse")]
    assert (names(found), found.num_significant, found.ways) == (["same"], 2, (PAIRED, OWN))


@pytest.mark.parametrize(
    ("values", "significant"), [((0.40, 0.41, 0.42), True), ((0.28, 0.38, 0.33), False)]
)
def test_repeated_trials_are_compared_over_their_seeds(values, significant):
    """Check values of Welch's t: differences 0.10 and 0.02, half-widths 0.023 and 0.12."""
    records = [
        trial(f"a{n}", group="a", validation=0.1, ser=ser, half=1.0)
        for n, ser in enumerate((0.30, 0.31, 0.32))
    ] + [
        trial(f"b{n}", group="b", validation=0.2, ser=ser, half=1.0) for n, ser in enumerate(values)
    ]
    found = standing(records)
    assert found.ways == (SEEDS,)
    assert names(found) == ([] if significant else ["b0"])
    if significant:
        assert (
            "differs significantly from that of the other (95 % each, means over seeds)"
            in found.sentence()
        )


def test_seeds_without_chance_do_not_make_a_difference_significant():
    """Full batches without noise give the same SER with every seed: the test part varies."""
    records = [
        trial(f"{group}{seed}", group=group, validation=ser, ser=ser, half=0.05)
        for group, ser in (("a", 0.300), ("b", 0.301))
        for seed in range(3)
    ]
    same = standing(records, pair=lambda first, second: (0.3, -2.0, 3.0))
    apart = standing(records, pair=lambda first, second: (0.3, 0.1, 0.5))
    assert (names(same), same.ways) == (["b0"], (PAIRED,))
    assert (names(apart), apart.ways) == ([], (SEEDS,))


def test_means_over_seeds_are_compared_over_the_test_records_as_means():
    """The trials in the middle by validation may be alike where the means are not."""
    values = {"a": (0.300, 0.301, 0.302), "b": (0.41, 0.42, 0.302, 0.40, 0.41)}
    records = [
        trial(f"{group}{n}", group=group, validation=ser0 + 0.01 * n, ser=ser, half=0.2)
        for ser0, (group, of_seeds) in zip((0.1, 0.2), values.items(), strict=True)
        for n, ser in enumerate(of_seeds)
    ]

    def pair(first, second):
        one, other = (fmean(r.metrics["ser"] or 0.0 for r in some) for some in (first, second))
        return other - one, other - one - 0.02, other - one + 0.02

    middle = Group(key="b", records=tuple(records[3:])).middle("validation_ser")
    assert middle.metrics["ser"] == 0.302
    found = standing(records, pair=pair)
    assert (names(found), found.ways) == ([], (SEEDS,))


def test_nothing_is_claimed_where_nothing_can_be_compared():
    found = standing([record("a", mauve=0.5, task="synthesis"), record("b", ser=0.2)][:1])
    assert found.sentence() == "best by mauve 0.5: a a"
    assert standing([record("x", status="failed")]) is None


def test_a_trial_that_drew_no_bootstrap_has_no_interval():
    made = trial("a", validation=0.1, ser=0.2, half=0.0)
    assert interval_of(made) == (0.2, 0.2)
    origin = parse({"evaluation": {"bootstrap_samples": 0}})
    assert interval_of(replace(made, plan=replace(made.plan, origin=origin))) is None


def test_a_table_has_the_interval_of_ser():
    out = io.StringIO()
    records = [trial("a", validation=0.1, ser=0.25, half=0.01), record("old", ser=0.5)]
    Console(file=out, width=140).print(results_table("s", records))
    text = out.getvalue()
    assert "95 %" in text
    assert "0.240-0.260" in text
    out.truncate(0)
    Console(file=out, width=140).print(results_table("s", records[1:]))
    assert "95 %" not in out.getvalue()
