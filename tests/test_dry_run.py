"""Nothing is charged for what one step, one save and one load on made records
refuse.
"""

from typing import get_args

import annotated_types
import pytest

from search_spaces import space as spaces
from sweep.planning.accounting import Accounting
from sweep.planning.prepare import prepare_space
from sweep.runtime import runner
from sweep.spending.ledger import FILE, Ledger
from tests.models._builds import FULLY, SCHEMA
from tests.models.test_own_model import here
from tests.models.test_own_state import code, write
from tests.refusals import refused
from tests.sweep.runtime.test_driver import Stage
from tests.sweep.sweeps import settings_in
from trainables import catalogue
from trainables.config.trial import parse
from trainables.dp.seeding import generator
from trainables.dry_run import dry_run
from trainables.errors import InvalidInput

__all__ = ["here"]

SMALL = {
    "bert": FULLY["bert"],
    "clc": {**FULLY["clc"], "hidden_size": 8, "char_filters": 4},
    "features": {"layers": [2]},
    "causal_lm": {
        "hidden_size": 24,
        "num_layers": 1,
        "num_heads": 2,
        "intermediate_size": 40,
    },
}


def least(config):
    """The smallest value that each numeric field of a model allows."""
    found = {}
    for name, field in config.model_fields.items():
        nested = [
            m
            for a in get_args(field.annotation)
            for m in getattr(a, "__metadata__", ())
        ]
        inner = [each for m in nested for each in getattr(m, "metadata", ())]
        for bound in [*field.metadata, *inner]:
            if isinstance(bound, annotated_types.Ge):
                found[name] = bound.ge
            elif isinstance(bound, annotated_types.Gt) and bound.gt == 0:
                found[name] = 1e-9
    return found


def trial(model, *, engine="dp_sgd", **synthesis):
    fields = {"engine": engine, "model": model}
    if model["name"] == "causal_lm":
        fields |= {
            "task": "synthesis",
            "data": {"name": "treedst"},
            "synthesis": synthesis,
        }
    return parse(fields)


@pytest.mark.slow  # a model for each field
@pytest.mark.parametrize("name", SMALL)
def test_every_model_trains_at_the_least_value_of_each_field(name):
    """A bound of a config is one that the code can do."""
    bounds = least(catalogue.entry("models", name))
    assert len(bounds) >= 3
    every = [dict([each]) for each in bounds.items()]
    for own in (
        [bounds] if name == "features" else every
    ):  # whose encoder takes a second to load
        dry_run(trial({"name": name, **SMALL[name], **own}), SCHEMA)


@pytest.mark.parametrize(
    "synthesis",
    [
        {"method": "two_stage", "parse_epochs": 7, "shuffle_pairs": True},
        {"method": "one_and_a_half_stage", "lora_rank": 2},
    ],
)
@pytest.mark.parametrize("engine", ["sgd", "dp_sgd"])
def test_every_method_of_generation_is_tried(synthesis, engine):
    dry_run(
        trial({"name": "causal_lm", **SMALL["causal_lm"]}, engine=engine, **synthesis),
        None,
    )


def test_a_field_below_what_the_code_can_do_is_refused():
    with refused(r"model\.word_buckets.*3"):
        trial({**SMALL["bert"], "word_buckets": 2})


METHOD = "    def {}(self, *given, **named):\n        raise KeyError('gone')\n"
# What its graphs do not run, such as its own way to be loaded, is no part of a trial.
BROKEN = {
    "a step": code(forward="if words.shape[1] == 9:\n    raise KeyError('gone')"),
    "a save": code(methods=METHOD.format("_save_to_state_dict")),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_what_a_dry_run_refuses_leaves_no_sweep_and_no_charge(here, broken):
    write(here, BROKEN[broken])
    about = {"name": "module", "factory": "own:build", "word_buckets": 60}
    base = {
        "data": {"name": "communication", "num_utterances": 1_000},
        "model": {**about, "options": {"buckets": 60, "width": 8}},
        "engine": "dp_sgd",
        "training": {"epochs": 1},
    }
    space = spaces.parse(
        {"name": "own", "base": base, "resources": {"executor": "local"}}
    )
    settings = settings_in(here)
    with refused(r"model\.factory=own:build"):
        runner.start(prepare_space(space, settings=settings), settings)
    assert Ledger(settings.home / FILE).entries() == []
    assert not (settings.home / "own").exists()


def test_the_driver_tries_a_trial_before_it_pays(tmp_path):
    """A search chooses trials while it runs. One that is refused costs nothing, others
    go on, and a trial that has begun is not tried again.
    """
    stage, tried = Stage(tmp_path), []

    def refuse_first(config):
        tried.append(config.id)
        if config.id == stage.first:
            raise InvalidInput("expected better")

    stage.driver.dry_run = refuse_first
    assert stage.begin().reason == "expected better"
    assert stage.releases(stage.first) == []
    assert stage.begin(stage.second).go_on
    assert len(stage.releases(stage.second)) == 1
    assert tried == [stage.first, stage.second]


def test_an_engine_that_pays_nothing_is_not_tried(tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr(
        "trainables.dry_run.dry_run", lambda *given: tried.append(given)
    )
    for engine in ("sgd", "edp_sgd", "dp_sgd"):
        fields = {
            "data": {"name": "communication", "num_utterances": 1_000},
            "engine": engine,
        }
        runner.dry_run(parse(fields), Accounting(settings_in(tmp_path)))
    assert [config.engine for config, _ in tried] == ["edp_sgd", "dp_sgd"]
    assert all(schema.intents for _, schema in tried)


def test_equal_models_are_tried_once(monkeypatch):
    model = {**SMALL["bert"], "dropout": float(generator(0, "once").random()) / 9}
    dry_run(trial(model), SCHEMA)
    monkeypatch.setattr("trainables.dry_run._frames", None)
    dry_run(
        parse({"engine": "dp_sgd", "model": model, "privacy": {"max_grad_norm": 9}}),
        SCHEMA,
    )
    with pytest.raises(InvalidInput):
        dry_run(trial(model, engine="sgd"), SCHEMA)
