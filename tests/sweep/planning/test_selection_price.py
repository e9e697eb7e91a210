import itertools
import json
import math
from dataclasses import replace

import pytest
from dp_accounting import get_epsilon_gaussian
from dp_accounting.dp_event import RepeatAndSelectDpEvent

from search_spaces import space as spaces
from sweep.planning.accounting import Accounting
from sweep.planning.prepare import prepare_space
from sweep.planning.selection_price import priced
from tests.accountants.outside import pld_epsilon, rdp_epsilon, sampled
from tests.refusals import refused
from tests.sweep.sweeps import settings_in


def _document(**fields):
    """The space of the golden values: 4,478 records are declared, so no data is
    read.
    """
    search = {
        "strategy": "private_selection",
        "num_trials": {"law": "geometric", "mean": 20},
    }
    return {
        "name": "chosen",
        "base": {
            "engine": "dp_sgd",
            "data": {"name": "atis", "num_records": 4_478},
            "privacy": {"delta": 1e-5, "noise_multiplier": 2.0},
            "training": {"epochs": 30, "expected_batch_size": 64},
        },
        "axes": {
            "privacy.max_grad_norm": [0.25, 0.5, 1.0, 2.0],
            "training.learning_rate": {
                "range": {"low": 1e-3, "high": 1e-2, "log": True}
            },
        },
        **fields,
        "search": {**search, **fields.get("search", {})},
    }


def _prepare(folder, **fields):
    return prepare_space(
        spaces.parse(_document(**fields)), settings=settings_in(folder)
    )


def test_the_prices_of_twenty_trials_on_atis(tmp_path):
    price = _prepare(tmp_path, budget={"total": 3.4}).price  # within which it stays
    found = (price.epsilon_one_trial, price.epsilon_composed, price.epsilon_selected)
    assert found == pytest.approx((1.37, 7.43, 3.34), abs=0.005)
    assert (price.law, price.mean, price.num_configurations) == ("geometric", 20, 4)


_RATES = {"training.learning_rate": {"range": {"low": 1e-3, "high": 1e-2}}}


def _trial(noise, *, epochs=30):
    """The event of a trial of the space: 4,478 records, of which 64 are expected in a
    step.
    """
    return sampled(noise, rate=64 / 4_478, steps=-(-epochs * 4_478 // 64))


@pytest.mark.parametrize("strict", [0.5, 2.0])
def test_configurations_of_several_deltas_are_priced_at_the_smallest(tmp_path, strict):
    """Wherever it stands (a space of today has one delta). Each price is the library's,
    and the claim is what the library's pairs of the selection allow: the least of delta
    + e^epsilon a and 1 - e^-epsilon (1 - delta - a).
    """

    class Several(Accounting):
        def mechanism(self, config):
            delta = 1e-7 if config.privacy.max_grad_norm == strict else 1e-4
            return replace(super().mechanism(config), delta=delta)

    axes = {"privacy.max_grad_norm": [0.5, 1.0, 2.0], **_RATES}
    _, _, price = priced(
        spaces.parse(_document(axes=axes)), account=Several(settings_in(tmp_path))
    )
    chosen = RepeatAndSelectDpEvent(_trial(2.0), 20, 1)
    one, composed, selected = (
        pld_epsilon(_trial(2.0), delta=1e-7, interval=5e-4),
        pld_epsilon(*[_trial(2.0)] * 20, delta=1e-7, interval=5e-4),
        rdp_epsilon(chosen, delta=1e-7),
    )
    assert price.delta == 1e-7
    found = (price.epsilon_one_trial, price.epsilon_composed, price.epsilon_selected)
    assert found == pytest.approx((one, composed, selected), rel=5e-3)
    assert get_epsilon_gaussian(1 / price.claim.gaussian_mu, 1e-7) == pytest.approx(
        selected, 2e-3
    )
    pairs = [
        (rdp_epsilon(chosen, delta=at), at)
        for at in (10 ** (-place / 4) for place in range(1, 29))
    ]
    allowed = [delta + 0.01 * math.exp(epsilon) for epsilon, delta in pairs]
    allowed += [1 - math.exp(-epsilon) * (1 - delta - 0.01) for epsilon, delta in pairs]
    assert price.claim.max_tpr_1pct == pytest.approx(min(allowed), rel=1e-2)


@pytest.mark.parametrize(
    ("law", "mean"), [("geometric", 3), ("logarithmic", 8), ("poisson", 3)]
)
def test_the_dearest_configuration_sets_the_price(tmp_path, law, mean):
    search = {"num_trials": {"law": law, "mean": mean}}
    rest = {"training.learning_rate": {"range": {"low": 1, "high": 2}}}
    prices = {}
    for noise in ([2.0], [4.0], [2.0, 4.0]):
        axes = {"privacy.noise_multiplier": noise, **rest}
        price = _prepare(tmp_path, axes=axes, search=search).price
        prices[len(noise), noise[0]] = price.epsilon_selected
    assert prices[2, 2.0] == pytest.approx(prices[1, 2.0], rel=1e-12)
    assert prices[1, 4.0] < prices[1, 2.0]


_DEAR = {"name": "dear", "set": {"privacy.noise_multiplier": 2.0}}
_CHEAP = {"name": "cheap", "set": {"privacy.noise_multiplier": 4.0}}
_EPOCHS = {"training.epochs": {"range": {"low": 3, "high": 9, "integer": True}}}


@pytest.mark.parametrize("variants", [(_DEAR, _CHEAP), (_CHEAP, _DEAR)])
@pytest.mark.parametrize("one", [_DEAR, _CHEAP])
def test_the_dearest_variant_counts_wherever_it_and_a_range_stand(
    tmp_path, variants, one
):
    only = _prepare(tmp_path, axes=_RATES, variants=[_DEAR]).price
    of_one = [{**each, "axes": _RATES} if each is one else each for each in variants]
    price = _prepare(tmp_path, axes={}, variants=of_one).price
    assert price.num_configurations == 2
    for name in ("epsilon_one_trial", "epsilon_composed", "epsilon_selected"):
        assert getattr(price, name) == pytest.approx(getattr(only, name), rel=1e-9)
    longer = [{**each, "axes": _EPOCHS} if each is one else each for each in variants]
    with refused(r"axes.training.epochs: expected a list of values"):
        _prepare(tmp_path, axes={}, variants=longer)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"budget": {"total": 3.3}},
            r"costs epsilon 3\.34\d at delta 1e-05, which exceeds",
        ),
        (
            {"budget": {"total": 0.01}},
            r"what the choice alone costs .* mean 20, got 0\.01",
        ),
        (
            {"axes": {"privacy.max_grad_norm": [0.25, 0.5, 1.0, 2.0]}},
            r"expected search.num_trials.mean of at most 4, the points of the space,"
            r" got 20",
        ),
        (
            {"axes": _EPOCHS},
            r"axes.training.epochs: expected a list .* a range along which a trial's"
            r" epsilon",
        ),
        (
            {"axes": {"privacy.noise_multiplier": {"range": {"low": 1, "high": 2}}}},
            r"axes.privacy.noise_multiplier: expected a list of values",
        ),
        *(  # the middle costs what one end costs, and not what the other does
            (
                {
                    "axes": {
                        "training.epochs": {
                            "range": {"low": low, "high": low + 1, "integer": True}
                        }
                    }
                },
                r"axes.training.epochs: expected a list of values",
            )
            for low in (2, 3)
        ),
        *(  # beside a range that costs nothing, before it and after it
            ({"axes": dict(axes)}, r"axes.training.epochs: expected a list of values")
            for axes in itertools.permutations((_EPOCHS | _RATES).items())
        ),
    ],
)
def test_what_has_no_price_is_refused(tmp_path, fields, line):
    with refused(line):
        _prepare(tmp_path, **fields)


def _without_noise():
    return {**_document()["base"], "privacy": {"delta": 1e-5}}


@pytest.mark.parametrize("target", [1.0, 8.0])
@pytest.mark.parametrize(
    "epochs", [[30], [9, 30], [30, 9]]
)  # the dearest is first or last
def test_the_noise_of_a_target_is_found_and_kept(tmp_path, target, epochs):
    axes = {**_document()["axes"], "training.epochs": epochs}
    search = {"target_epsilon": target}
    prepared = _prepare(tmp_path, base=_without_noise(), search=search, axes=axes)
    assert 0.99 * target <= prepared.price.epsilon_selected <= target
    (noise,) = {trial.noise_multiplier for trial in prepared.plan.trials}
    stored = spaces.parse(prepared.space.document())
    again = prepare_space(stored, settings=settings_in(tmp_path))
    assert {trial.noise_multiplier for trial in again.plan.trials} == {noise}


@pytest.mark.parametrize(
    ("base", "target", "line"),
    [
        (_without_noise(), 0.01, "the choice among a number of trials with mean 20"),
        (_without_noise(), 0, "greater than 0"),
        (_document()["base"], 4.0, r"expected no privacy\.noise_multiplier with"),
    ],
)
def test_a_target_that_no_noise_reaches_or_beside_a_noise_is_refused(
    tmp_path, base, target, line
):
    with refused(line):
        _prepare(tmp_path, base=base, search={"target_epsilon": target})


def test_a_noise_set_beside_a_target_must_meet_it(tmp_path):
    fields = {"base": _without_noise(), "search": {"target_epsilon": 4.0}}
    line = r"no privacy\.noise_multiplier with search\.target_epsilon=4: .* got 0\.5, with which"
    with refused(line):
        _prepare(tmp_path, **fields, override={"privacy.noise_multiplier": 0.5})
    (noise,) = {
        trial.noise_multiplier for trial in _prepare(tmp_path, **fields).plan.trials
    }
    for kept in (50.0, 0.999 * noise):  # of another version, which may be slightly off
        price = _prepare(
            tmp_path, **fields, override={"privacy.noise_multiplier": kept}
        ).price
    assert 4.0 < price.epsilon_selected < 4.04


def test_plan_prints_both_prices(place, line):
    file = place / "chosen.yaml"
    file.write_text(json.dumps(_document()))
    shown = " ".join(line.says("plan", file).split())
    assert "4 configurations to draw from" in shown
    assert "epsilon_selected 3.34" in shown
    assert "20 trials that are all shown: 7.43" in shown
    document = line.facts("plan", file)
    assert document["selection"]["epsilon_selected"] == pytest.approx(3.34, abs=0.005)
    assert document["together"] is None
