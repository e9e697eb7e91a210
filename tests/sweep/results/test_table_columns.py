"""Columns of tables of trials: an axis that varies has one, ids are short and lead to
one trial.
"""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sweep.results.tables.axes import setting_columns, short_ids, value_at, varied_paths
from sweep.results.tables.plan import plan_table
from sweep.store.plans import Plan
from tests.sweep.store.test_plans import SGD, trial

Z0, RATE = "privacy.noise_multiplier", "training.learning_rate"

_IDS = st.lists(st.text("0123456789abcdef", min_size=12, max_size=12), max_size=12)


@given(ids=_IDS)
def test_short_ids_are_prefixes_of_one_length_that_lead_to_one_trial(ids):
    found = short_ids(ids)
    assert found.keys() == set(ids)
    for whole, prefix in found.items():
        assert whole.startswith(prefix)
        assert [one for one in found if one.startswith(prefix)] == [whole]
    assert len({len(prefix) for prefix in found.values()}) <= 1
    assert all(len(prefix) >= 6 for prefix in found.values())


_POINTS = st.fixed_dictionaries(
    {}, optional={Z0: st.sampled_from([0.5, 1.0]), RATE: st.sampled_from([0.1, 0.2])}
)


@given(points=st.lists(_POINTS, min_size=1, max_size=5))
def test_an_axis_varies_where_two_trials_differ_in_it(points):
    """Also where one has it and another does not, in whatever order they come."""
    plans = [trial(f"t{n}", values=values) for n, values in enumerate(points)]
    expected = {
        path for path in (Z0, RATE) if len({values.get(path) for values in points}) > 1
    }
    assert set(varied_paths(plans)) == expected
    random.Random(0).shuffle(plans)
    assert set(varied_paths(plans)) == expected


def heads(plans, *paths, more_to_come=False):
    apart, _ = setting_columns(plans, paths, more_to_come=more_to_come)
    return [column.head for column in apart]


def test_what_is_equal_in_all_trials_has_no_column():
    plans = [trial(f"t{n}", values={Z0: 0.5, RATE: n / 10}) for n in range(3)]
    assert heads(plans, Z0, RATE) == ["lr"]
    assert heads(plans, Z0, RATE, more_to_come=True) == ["trial", "z0", "lr"]
    named = [*plans[:2], replace(plans[2], variant="w")]
    assert heads(named, Z0, RATE) == ["trial", "lr"]
    assert heads(plans[:1], Z0, RATE) == ["trial"], "a table has at least a name"


def test_one_column_of_all_settings_says_what_several_do():
    plans = [
        trial("a", variant="v", values={Z0: 0.5, RATE: 0.1}),
        trial("b", variant="w", values={Z0: 1.0, RATE: 0.2}),
    ]
    apart, together = setting_columns(plans, (Z0, RATE))
    assert together.cells == ["v, z0 0.5, lr 0.1", "w, z0 1, lr 0.2"]
    assert [column.cells for column in apart] == [
        ["v", "w"],
        ["0.5", "1"],
        ["0.1", "0.2"],
    ]
    assert [column.is_left for column in apart[1:]] == [False, False]


def test_a_setting_that_an_engine_does_not_read_is_empty():
    """The noise of a trial without noise would only mislead."""
    private, plain = trial("a"), trial("b", origin=SGD, values={})
    assert value_at(private, Z0) == 1.5
    assert value_at(replace(private, values={}), Z0) == 1.5, "of its config"
    assert value_at(plain, Z0) is None
    assert value_at(private, "model.nothing.such") is None


def refused(name, reason):
    return trial(name, reason=reason, refused_by="budget", values={Z0: 9.0})


def test_a_plan_has_noise_where_there_is_some_and_each_reason_once_below_it():
    private, plain = (
        trial("a", noise_multiplier=1.5),
        trial("b", origin=SGD, noise_multiplier=1.5),
    )
    dear, late, again = (
        refused("c", "too dear"),
        refused("d", "late"),
        refused("e", "late"),
    )
    table = plan_table(Plan(name="toy", trials=(private, plain, dear, late, again)))
    cells = {column.head: column.cells for column in table.columns}
    assert cells["refused"] == ["", "", "1", "2", "2"]
    assert cells["noise"][:2] == ["1.5", "-"]
    assert table.notes == ["refused (1): too dear", "refused (2): late"]
    assert list(table.styles) == ["", "", "dim", "dim", "dim"]
    assert table.title == "toy: 2 trials to run, 3 refused"


def test_the_title_says_what_is_drawn_or_chosen():
    drawn = plan_table(Plan(name="toy", trials=(trial("a"),)), drawn_from=True).title
    assert drawn == "toy: 1 configuration to draw from, 0 refused"
    chosen = plan_table(Plan(name="toy", trials=(), to_choose=4)).title
    assert chosen == "toy: 0 trials to run, 0 refused, 4 to be chosen while it runs"
