"""A config is a tagged union: each entry has its own fields, and the id is over what is
read.
"""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from search_spaces.expansion import own_fields
from tests.refusals import refused
from trainables import catalogue
from trainables.config.mechanism import build
from trainables.config.trial import (
    REGISTRIES,
    DataConfig,
    ModelConfig,
    TrialConfig,
    data_config,
    model_part,
    parse,
)
from trainables.dp.engines.configs import EngineConfig
from trainables.fields import first_problem
from trainables.generation.methods import GenerationMethod

_TEXT = {"data": {"name": "smcalflow"}, "model": {"name": "causal_lm"}}
_STAGES = {"method": "two_stage", "parse_epochs": 2}


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"data": {"name": "health", "pth": "x"}},
            "unknown field data.pth for data health",
        ),
        (
            {"training": {"epoch": 3}},
            "unknown field training.epoch for training with steps: did you mean epochs?",
        ),
        ({"trainings": {}}, "unknown field trainings: did you mean training?"),
        (
            {"model": {"name": "features", "layers": 3}},
            "model.layers: expected a list, got 3",
        ),
        (
            {"privacy": {"noise_decay": "linear"}},
            "privacy.noise_decay: expected a mapping",
        ),
        ({"model": "clc"}, "model: expected a mapping, got 'clc'"),
        (
            {"model": {"name": "bert", "encoder": "minilm", "hidden_size": 24}},
            "expected no model.hidden_size, which is read only with"
            " model.encoder=scratch, got 24",
        ),
        (
            {
                "model": {
                    "word_vectors": "glove",
                    "freeze_embeddings": True,
                    "word_buckets": 100,
                }
            },
            "expected no model.word_buckets, which is read only with"
            " model.word_vectors=hashed or model.freeze_embeddings=false, got 100",
        ),
        (
            {"privacy": {"group_scale": {"name": "public", "cap": 0.5}}},
            "expected no privacy.group_scale.cap, which is read only with"
            " privacy.group_scale.normalise=none, got 0.5",
        ),
        (
            {"privacy": {"group_scale": {"name": "none", "normalise": "none"}}},
            "expected no privacy.group_scale.normalise, which is read only with"
            " privacy.group_scale.name=public or first_step_noised or first_step, got"
            " 'none'",
        ),
        (
            {"engine": "untrained", "training": {"learning_rate": 0.1}},
            "unknown field training.learning_rate for training without a step (its"
            " fields: num_workers, physical_batch_size)",
        ),
        (
            {"training": {"epochs": 7, "steps": 100}},
            "expected no training.epochs, which is read only with training.steps=null,"
            " got 7",
        ),
        (
            {"synthesis": {"method": "one_stage"}},
            "expected fields of synthesis only with task=synthesis",
        ),
        (
            {"privacy": {"engine": "sgd"}},
            "expected no privacy.engine, which follows from other fields",
        ),
        (
            {"engine": "sgd", "privacy": {"samplin": "poisson"}},
            "unknown field privacy.samplin for engine sgd: did you mean sampling?",
        ),
        (
            {"task": "synthesis", **_TEXT, "synthesis": {"parse_epochs": 2}},
            "unknown field synthesis.parse_epochs for method one_stage",
        ),
        (
            {"task": "synthesis", **_TEXT, "synthesis": {**_STAGES, "histogram": "dp"}},
            "unknown field synthesis.histogram for method two_stage",
        ),
        ({1: 2}, "unknown field 1 (its fields: data, "),
        ([], "config: expected a mapping, got []"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_the_nearest_name(fields, line):
    """Nothing is overwritten in silence, and a caller in Python is told the same."""
    with refused("^") as found:
        parse(fields)
    assert str(found.value).startswith(line)
    with pytest.raises(ValidationError) as same:
        TrialConfig.model_validate(fields)
    assert first_problem(same.value) == str(found.value)


def test_a_part_by_itself_says_the_same():
    with refused(r"^unknown field model\.num_heads for model clc"):
        model_part(name="clc", num_heads=3)
    with refused(r"^expected data\.name to be one of atis, .*got 'at'"):
        data_config(name="at")


def test_sizes_of_a_loaded_encoder_are_its_own():
    loaded = {"name": "bert", "encoder": "minilm"}
    assert (
        parse({"model": loaded}).id == parse({"model": {**loaded, "num_layers": 4}}).id
    )
    assert "hidden_size" not in parse({"model": loaded}).model_dump()["model"]


def some(fixed=None, **choices):
    """Fields with these values, and any of the others with one of its values, or a
    strategy.
    """
    options = {
        n: c if isinstance(c, st.SearchStrategy) else st.sampled_from(c)
        for n, c in choices.items()
    }
    kept = {n: st.just(v) for n, v in (fixed or {}).items()}
    return st.fixed_dictionaries(kept, optional=options)


EITHER = [False, True]
MODELS = st.one_of(
    some(
        {"name": "clc"},
        word_vectors=["hashed", "glove"],
        word_dim=[50, 51],
        word_buckets=[8_192, 100],
        freeze_embeddings=EITHER,
        hidden_size=[384, 16],
    ),
    some({"name": "bert"}, num_layers=[4, 2], hidden_size=[312, 24]),
    st.just({"name": "bert", "encoder": "minilm"}),
)
CONFIGS = some(
    model=MODELS,
    data=some(name=["atis", "health"], split=["paper", "bernoulli"]),
    training=some(epochs=[30, 2], physical_batch_size=[None, 4], seed=[0, 1]),
)
_DRAWN = {
    "sampling": [None, "shuffle", "poisson"],
    "delta": [None, 1e-6],
    "reproducible_noise": EITHER,
    "max_records_per_group": [1, 3],
}
_NOISE = {
    "noise_multiplier": [1.0, 2.0],
    "noise_decay": [{"kind": "none"}, {"kind": "linear", "tau": 0.1}],
    "group_scale": [
        "none",
        "public",
        {"name": "first_step", "normalise": "none", "cap": 0.5},
    ],
    "max_grad_norm": [1.0, 0.1],
}
RELEASES = st.one_of(
    some({"engine": "sgd"}, privacy=some(**_DRAWN)),
    *(
        some({"engine": name}, privacy=some(**_DRAWN, **_NOISE))
        for name in ("edp_sgd", "dp_sgd")
    ),
)
METHODS = some(
    {"task": "synthesis", "engine": "dp_sgd", **_TEXT},
    synthesis=st.one_of(
        st.just({"method": "one_stage"}),
        st.just({}),
        *(
            some(
                {"method": "two_stage", "parse_epochs": n},
                parser_epochs=[64, 2],
                shuffle_pairs=EITHER,
            )
            for n in (2, 3)
        ),
        some(
            {"method": "one_and_a_half_stage"},
            prompt=["domain", "function_types"],
            histogram=["dp", "public"],
            histogram_noise_multiplier=[20.0, 5.0],
            parser_epochs=[64, 2],
        ),
    ),
)


def read(fields):
    """A config of the fields that are read; with another one it is refused."""
    own, dropped = own_fields(fields)
    if dropped:
        with refused(r"^expected no \w+\.\w+, which is read only with "):
            parse(fields)
    return parse(own)


def law_of(config):
    """All that a trial reads, without how a step is cut into pieces."""
    fields = config.model_dump(mode="json")
    fields["training"].pop("physical_batch_size")
    return fields


@settings(max_examples=300, deadline=None)
@given(pair=st.one_of(st.tuples(CONFIGS, CONFIGS), st.tuples(METHODS, METHODS)))
def test_ids_are_equal_exactly_where_what_is_read_is(pair):
    left, right = map(read, pair)
    assert (left.id == right.id) == (law_of(left) == law_of(right))


@settings(max_examples=300, deadline=None)
@given(first=RELEASES, second=RELEASES)
def test_what_is_released_has_one_id(first, second):
    """The mechanism is all that accountants and the step read of `privacy`."""
    left, right = read(first), read(second)
    ran, other = (build(config, num_records=640) for config in (left, right))
    assert (left.id == right.id) == (ran == other)


@settings(max_examples=200, deadline=None)
@given(fields=st.one_of(CONFIGS, RELEASES, METHODS))
def test_a_dump_is_read_back_to_the_same_trial(fields):
    config = read(fields)
    again = parse(json.loads(json.dumps(config.model_dump(mode="json"))))
    assert again == config
    assert again.id == config.id


def test_reading_a_config_of_any_entry_imports_no_torch():
    code = (
        "import sys; from trainables.config.trial import REGISTRIES; from trainables"
        " import catalogue; every = [catalogue.entry(s, n) for s in REGISTRIES.values()"
        " for n in catalogue.names(s)]; print(len(every));"
        " assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) >= 10 + len(REGISTRIES)


def _classes(base):
    for each in base.__subclasses__():
        yield each
        yield from _classes(each)


@pytest.mark.parametrize(
    ("registry", "base"),
    [
        ("datasets", DataConfig),
        ("models", ModelConfig),
        ("engines", EngineConfig),
        ("generation", GenerationMethod),
    ],
)
def test_every_component_is_listed_by_its_name(registry, base):
    found = {
        name: each
        for each in _classes(base)
        for name in each.tag().values()
        if each.__module__ in sys.modules  # not one of another test
    }
    listed = {n: catalogue.entry(registry, n) for n in catalogue.names(registry)}
    assert found == listed
