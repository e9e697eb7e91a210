import math
from dataclasses import replace

import pytest

from trainables import catalogue
from trainables.config.mechanism import build_from
from trainables.config.trial import TrainingConfig
from trainables.dp import engines
from trainables.dp.accounting.calibration import noise_for
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.releases import release
from trainables.errors import CannotAnalyze, InvalidInput

_BOUNDS = catalogue.names("accountants", kind="guarantee")
_NAMES = (*_BOUNDS, *catalogue.names("accountants", kind="figure"))


def mechanism(engine, noise_multiplier=1.0, **privacy):
    noise = {} if engine == engines.BASELINE else {"noise_multiplier": noise_multiplier}
    return build_from(
        engine,
        {**noise, "delta": 1e-5, **privacy},
        training=TrainingConfig(epochs=2, num_workers=2),
        num_records=2_560,
    )


def figure(name, what, delta=1e-5):
    """An accountant's figure; None where it has no theorem, which it must say by its
    name.
    """
    try:
        module = catalogue.entry("accountants", name)
        if name in _BOUNDS:
            return float(module.of_release(release(what), delta=delta))
        return float(module.epsilon(what, delta=delta))
    except CannotAnalyze as refusal:
        problem = str(refusal)
    assert problem.startswith(f"{name}: ")
    return None


@pytest.mark.parametrize("name", _BOUNDS)
@pytest.mark.parametrize("target", [1.0, pytest.param(50.0, marks=pytest.mark.slow)])
def test_a_target_is_met_or_refused(name, target):
    for engine in ("edp_sgd", "dp_sgd"):
        what = mechanism(engine)
        try:
            z = noise_for(what, target_epsilon=target, accountant=name)
        except InvalidInput as refusal:
            assert f": {name}: " in str(refusal)  # noqa: PT017  # every engine is tried
            assert figure(name, what) is None
            continue
        value = account(replace(what, noise_multiplier=z), accountant=name).epsilon
        assert 0.99 * target <= value <= target


@pytest.mark.parametrize("name", _BOUNDS)
def test_nothing_costs_nothing(name):
    for engine in ("edp_sgd", "dp_sgd"):
        assert figure(name, mechanism(engine).first(0)) in (None, 0.0)


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("engine", ["edp_sgd", "dp_sgd"])
def test_more_noise_a_larger_delta_and_fewer_epochs_cost_less(name, engine):
    base = figure(name, mechanism(engine))
    if base is None:
        return
    for cheaper in (
        figure(name, mechanism(engine, 2.0)),
        figure(name, mechanism(engine), delta=1e-3),
        figure(name, mechanism(engine).first(1)),
    ):
        assert cheaper is not None
        assert 0 < cheaper < base < math.inf


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("engine", ["edp_sgd", "dp_sgd", "sgd"])
def test_no_noise_is_never_finite(name, engine):
    assert figure(name, mechanism(engine, 0.0)) in (None, math.inf)


@pytest.mark.parametrize("name", _BOUNDS)
@pytest.mark.parametrize("engine", ["edp_sgd", "dp_sgd"])
def test_a_reason_makes_it_infinite(name, engine):
    assert figure(name, mechanism(engine, reproducible_noise=True)) in (None, math.inf)


def test_every_guarantee_of_a_mechanism_bounds_the_exact_one():
    """Accountants that apply to one mechanism agree up to the looseness of upper
    bounds.
    """
    for engine, exact in (("edp_sgd", "gaussian"), ("dp_sgd", "pld")):
        what = mechanism("edp_sgd" if engine == "edp_sgd" else "dp_sgd")
        least = figure(exact, what)
        assert least is not None
        for name in _BOUNDS:
            other = figure(name, what)
            assert other is None or other >= least
