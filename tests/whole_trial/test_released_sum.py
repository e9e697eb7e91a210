"""The release of a step against the definition, for every engine, model, task and
option.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from tests.engines.engine_checks import engine_on, mechanism
from tests.whole_trial.naive import (
    in_double,
    losses_of,
    record_gradient,
    sum_of_clipped,
)
from tests.whole_trial.small import KINDS, NUM_RECORDS, model_and_loader
from trainables.dp.noise import public_key

# Of the sum of all clipped norms: float32 against float64.
TOLERANCE = {"fp32": 2e-4, "bf16": 0.1}
CENTRAL = {"noise_calibration": "central"}
OFFERED = (
    ("dp_sgd", {}),
    ("dp_sgd", {"sampling": "shuffle"}),
    ("dp_sgd", {"unit": "group", "max_records_per_group": 2}),
    ("edp_sgd", {}),
    ("edp_sgd", {"sampling": "poisson"}),
    ("edp_sgd", {**CENTRAL, "microbatch_size": 2}),
    ("edp_sgd", {**CENTRAL, "microbatch_size": 1, "sampling": "poisson"}),
    ("edp_sgd", {"unit": "group", "max_records_per_group": 3}),
)
STRIDE = 2e-3  # the losses of the heads are float32 even here
GROUPS = np.arange(NUM_RECORDS) // 3


def engine_of(mech, kind, *, dropout, **setup):
    model, loader = model_and_loader(kind, dropout=dropout)
    return engine_on(
        mech,
        GROUPS,
        model=model,
        loader=loader,
        groups=GROUPS if mech.unit == "group" else None,
        learning_rate=0.05,
        key=public_key(0, "released"),
        public_batch=loader.batch(np.arange(3))
        if mech.group_scale == "public"
        else None,
        **setup,
    )


def units_of(engine, epoch, step):
    draw = engine._sampler.draw(epoch, step)
    every = [draw.records[draw.unit == unit].tolist() for unit in range(draw.num_units)]
    return [unit for unit in every if unit]


@settings(max_examples=50)
@given(
    kind=st.sampled_from(KINDS),
    offered=st.sampled_from(OFFERED),
    group_scale=st.sampled_from(["none", "public", "first_step_noised"]),
    workers=st.sampled_from([1, 2]),
    max_grad_norm=st.sampled_from([0.02, 1.0, 1e3]),
    physical=st.sampled_from([None, 1, 3]),
    dropout=st.sampled_from([0.0, 0.3]),
    precision=st.sampled_from(["fp32", "fp32", "bf16"]),
)
def test_two_steps_release_what_the_definition_says(
    kind, offered, group_scale, workers, max_grad_norm, physical, dropout, precision
):
    """Without noise, so that the sum itself is seen; the second step is on trained
    weights.
    """
    engine, privacy = offered
    records = 4 if "unit" in privacy else NUM_RECORDS
    mech = mechanism(
        engine, records=records, batch=4, workers=workers, epochs=2, group_scale=group_scale,
        max_grad_norm=max_grad_norm, **privacy,
    )  # fmt: skip
    made = engine_of(
        replace(mech, noise_multiplier=0.0),
        kind,
        dropout=dropout,
        physical_batch_size=physical,
        precision=precision,
    )
    for step in (0, 1):
        model, loader, alpha = (
            in_double(made.model),
            made._loader,
            made.group_scale.clone(),
        )
        units = units_of(made, 1, step) if step < mech.steps_in(1) else []
        if not units:
            return
        model.begin_step(1, step)
        stats = made.step(1, step)
        expected, norms = sum_of_clipped(
            model, loader, units, max_grad_norm=max_grad_norm, group_scale=alpha
        )
        found = made.released.double() * mech.num_microbatches
        moved = float(norms.clamp(max=max_grad_norm).sum())
        assert float((found - expected).norm()) <= TOLERANCE[precision] * moved
        if precision == "fp32":
            assert float(stats.norm) == pytest.approx(float(norms.sum()), rel=1e-3)
            assert int(stats.clipped) == int((norms > max_grad_norm).sum())
        assert int(stats.units) == len(units)
        assert int(stats.records) == sum(map(len, units))


@settings(max_examples=12)
@given(
    kind=st.sampled_from(KINDS),
    physical=st.sampled_from([None, 1, 3]),
    dropout=st.sampled_from([0.0, 0.3]),
)
def test_plain_sgd_releases_the_mean_gradient(kind, physical, dropout):
    mech = mechanism("sgd", records=NUM_RECORDS, batch=4, workers=1, epochs=1)
    made = engine_of(mech, kind, dropout=dropout, physical_batch_size=physical)
    model, loader = in_double(made.model), made._loader
    records = [record for unit in units_of(made, 0, 0) for record in unit]
    model.begin_step(0, 0)
    made.step(0, 0)
    expected = torch.stack([record_gradient(model, loader, i) for i in records]).mean(0)
    assert float((made.released.double() - expected).norm()) <= 2e-4 * float(
        expected.norm()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_definition_itself_is_a_gradient(kind):
    """Of the loss along any direction: against central differences, which no backward
    pass made.
    """
    model, loader = model_and_loader(kind, dropout=0.3)
    model = in_double(model)
    model.begin_step(0, 0)
    parameters = [p for p in model.parameters() if p.requires_grad]
    here = parameters_to_vector(parameters)
    for record in (0, 5):
        gradient = record_gradient(model, loader, record)
        torch.manual_seed(record)
        for along in (gradient, torch.randn(len(gradient), dtype=torch.float64)):
            along = along / along.norm()
            ends = []
            for side in (STRIDE, -STRIDE):
                vector_to_parameters(here + side * along, parameters)
                with torch.no_grad():
                    ends.append(float(losses_of(model, loader, [record])))
            vector_to_parameters(here, parameters)
            slope = (ends[0] - ends[1]) / (2 * STRIDE)
            assert abs(slope - float(gradient @ along)) <= 5e-3 * float(gradient.norm())
