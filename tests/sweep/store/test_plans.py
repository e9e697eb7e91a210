"""A plan as plain data: read back equal with every figure, damage noticed; names of its
trials.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from search_spaces import space as spaces
from sweep.store import plans
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.sweeps import SweepFolder, create
from tests.refusals import refused
from tests.sweep.logs import rewrite_sweep
from trainables.config.trial import parse
from trainables.errors import InvalidData

NOISE = {"noise_multiplier": 1.5}
CONFIG = parse({"engine": "dp_sgd", "privacy": NOISE, "training": {"epochs": 3}})
SGD = parse({"engine": "sgd"})


def trial(name="t", **fields):
    base = {
        "id": f"{name}-{CONFIG.id}",
        "variant": "v",
        "baseline": False,
        "values": {"privacy.noise_multiplier": 1.5},
        "origin": CONFIG,
    }
    return PlannedTrial(**{**base, **fields})


_FIGURES = ("noise_multiplier", "epsilon", "epsilon_paper", "epsilon_budget")
_WORDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12
)
_KIND = st.sampled_from(["config", "constraint", "mechanism", "budget"])
_TRIALS = st.builds(
    trial,
    name=_WORDS,
    baseline=st.booleans(),
    steps=st.none() | st.integers(0, 10**9),
    num_records=st.none() | st.integers(1, 10**9),
    **dict.fromkeys(_FIGURES, st.none() | st.floats(min_value=0, allow_nan=False)),
    accountant=st.none() | st.sampled_from(["pld", "gaussian"]),
    warnings=st.lists(_WORDS, max_size=2).map(tuple),
    reason=st.none() | _WORDS,
    refused_by=st.none() | _KIND,
)
_PLANS = st.builds(
    Plan,
    name=_WORDS,
    trials=st.lists(_TRIALS, max_size=3, unique_by=lambda each: each.id).map(tuple),
    merged=st.integers(0, 99),
    to_choose=st.integers(0, 99),
)


@settings(max_examples=40)
@given(plan=_PLANS)
def test_a_plan_comes_back_equal_with_every_figure(plan):
    """An infinite epsilon is text on the disk and infinite again when it is read."""
    document = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    again = TypeAdapter(Plan).validate_python(document)
    assert again == plan
    assert [each.config for each in again.trials] == [
        each.config for each in plan.trials
    ]
    counted = (document["num_trials"], document["num_refused"])
    assert counted == (len(plan.trials), len(plan.refused))


@pytest.mark.parametrize(
    ("field", "value"),
    [*(("id", None), ("config", None), ("epsilon", "much"), ("refused_by", "chance"))],
)
def test_a_trial_with_a_missing_or_wrong_field_is_damaged(field, value, tmp_path):
    plan = Plan(name="toy", trials=(trial(),))
    folder = create(tmp_path, spaces.parse({"name": "toy"}), plan, about={})

    def damage(entry):
        [row] = entry["plan"]["trials"]
        row |= {field: value}
        if value is None:
            del row[field]
        return entry

    assert SweepFolder(folder.path).plan() == plan
    rewrite_sweep(folder, "planned", damage)
    place = rf"line 2 is without a valid planned\.plan\.trials\.0\.{field}"
    with refused(place, InvalidData):
        SweepFolder(folder.path).plan()


@given(seed=st.integers(0, 9), rate=st.sampled_from([0.1, 0.2]))
def test_a_group_is_what_seeds_do_not_change(seed, rate):
    fields = {"engine": "sgd", "training": {"learning_rate": rate, "seed": seed}}
    base = {"engine": "sgd", "training": {"learning_rate": 0.1, "seed": 0}}
    assert (plans.group_of(fields) == plans.group_of(base)) is (rate == 0.1)


def test_the_noise_of_an_epoch_follows_its_decay():
    """Epoch 1 has z0; an engine without noise has none."""
    privacy = {
        "noise_multiplier": 2.0,
        "noise_decay": {"kind": "exponential", "tau": 0.5},
    }
    decaying = trial(
        origin=parse({"engine": "edp_sgd", "privacy": privacy}), noise_multiplier=2.0
    )
    first, second = (plans.noise_at(decaying, n)["noise_multiplier"] for n in (1, 2))
    assert first == 2.0
    assert 0 < second < first
    assert plans.noise_at(trial(origin=SGD, noise_multiplier=2.0), 1) == {}
    assert plans.noise_at(trial(noise_multiplier=None), 1) == {}
