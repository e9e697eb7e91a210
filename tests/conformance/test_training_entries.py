"""Optimisers and learning-rate schedules: a new file is found, can be an axis of a
space, is budgeted and shown, and is used by engines.
"""

import numpy as np
import pytest
import torch

from search_spaces import space as spaces
from sweep.planning import plan as planning
from sweep.planning.accounting import Accounting
from tests.refusals import refused
from tests.sweep.sweeps import settings_in
from trainables import catalogue
from trainables.config.mechanism import build
from trainables.config.trial import parse
from trainables.dp import engines
from trainables.dp.engines._audit_model import ChosenGradients, ChosenRecords
from trainables.dp.noise import public_key
from trainables.system.communication import Alone
from trainables.tasks._trial_result import engine_setup

OPTIMIZER = '''"""Steps of one length: w = w - lr sign(g)."""

import torch

from trainables.dp.optimizers._optimizer import Optimizer


class _Signs(torch.optim.Optimizer):
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data -= group["lr"] * p.grad.sign()


def make(layout, *, learning_rate) -> Optimizer:
    return Optimizer(_Signs(layout.parameters, {"lr": learning_rate}))
'''
COURSE = '''"""Half of the learning rate from the first step on, and then as it was."""


def factor(done):
    return 0.5
'''
# Shelf, name and text of the new file, and the field that names it.
NEW = [
    ("optimizers", "signs", OPTIMIZER, "optimizer"),
    ("learning_rates", "halved", COURSE, "learning_rate_decay"),
]
_EACH = pytest.mark.parametrize(("shelf", "name", "text", "field"), NEW)


@_EACH
def test_a_new_file_is_found_and_typed(shelf, name, text, field, drop_in):
    with refused(f"expected {field} to be one of .*, got '{name}'"):
        parse({"training": {field: name}})
    drop_in(shelf, name, text)
    assert name in catalogue.names(shelf)
    made = parse({"training": {field: name}})
    assert parse(made.model_dump(mode="json")) == made
    assert made.id != parse({}).id


@_EACH
def test_it_is_an_axis_whose_trials_are_budgeted(
    shelf, name, text, field, drop_in, tmp_path
):
    """It changes what is learnt and nothing that is released: epsilon is that of the
    default.
    """
    drop_in(shelf, name, text)
    default = getattr(parse({}).training, field)
    space = spaces.parse(
        {
            "name": "s",
            "base": {
                "engine": "dp_sgd",
                "data": {"name": "atis"},
                "training": {"epochs": 2},
            },
            "axes": {
                f"training.{field}": [default, name],
                "privacy.noise_multiplier": [0.4, 4.0],
            },
            "budget": {"epsilon": 3.0},
        }
    )
    plan = planning.make(space, account=Accounting(settings_in(tmp_path)))
    assert [trial.values[f"training.{field}"] for trial in plan.to_run] == [
        default,
        name,
    ]
    assert len({trial.epsilon for trial in plan.to_run}) == 1
    assert [trial.refused_by for trial in plan.refused] == ["budget", "budget"]
    assert name in plan.to_run[1].name


def _train(**training):
    """Weights after an epoch of two steps of plain training."""
    fields = {"expected_batch_size": 4, "epochs": 1, "learning_rate": 0.25, **training}
    engine = engines.BASELINE
    config = parse({"engine": engine, "training": fields})
    model = ChosenGradients([3])
    mechanism = build(config, num_records=8)
    made = catalogue.entry("engines", config.engine).make(
        model,
        mechanism,
        engine_setup(
            config,
            mechanism=mechanism,
            loader=ChosenRecords(torch.full((8, 3), 2.0)),
            ids=np.arange(8),
            comm=Alone(),
            key=public_key(0, "a test"),
            trial_id="a test",
        ),
    )
    made.run_epoch(0)
    return model.groups[0].weight.detach().flatten()


@pytest.mark.parametrize(("course", "rate"), [("constant", 0.25), ("halved", 0.125)])
def test_a_new_optimiser_takes_the_steps_at_the_rate_of_a_new_course(
    course, rate, drop_in
):
    drop_in("optimizers", "signs", OPTIMIZER)
    drop_in("learning_rates", "halved", COURSE)
    weights = _train(optimizer="signs", learning_rate_decay=course)
    torch.testing.assert_close(weights, torch.full((3,), -2 * rate))
