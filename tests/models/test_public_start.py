"""A model that starts from a public encoder: weights, name, and allowed corpora."""

import json
import shutil

import pytest

from tests.encoders import family_folders
from tests.models._builds import built
from tests.refusals import refused
from trainables.config.trial import data_config, model_part
from trainables.errors import InvalidData
from trainables.models.encoders.about import (
    MOMENTS,
    NAMES,
    WEIGHTS,
    about_of,
    write_about,
)


@pytest.fixture
def mine(tmp_path):
    """The folder of a small BERT that has learnt from two corpora, without moments."""
    place = tmp_path / "mine"
    family_folders.write(place, "bert")
    card = {"name": "mine", "corpora": [{"name": "health"}, {"name": "video"}]}
    write_about(place, card=card, layers=(0, 1, 2))
    return place


@pytest.mark.parametrize(
    ("field", "value"),
    [("layers", []), ("layers", "two"), ("card", {}), ("format", 99)],
)
def test_a_damaged_description_is_one_line(mine, field, value):
    about = json.loads((mine / "encoder.json").read_text())
    (mine / "encoder.json").write_text(json.dumps({**about, field: value}))
    for name in ("bert", "features", "lora"):
        with refused("an encoder of format 2 in .*damaged", InvalidData):
            built(name=name, encoder=str(mine))


def usable(data="atis", **fields):
    chosen = model_part(**fields)
    chosen.require_usable(data_config(name=data))


@pytest.mark.parametrize("name", ["bert", "features", "lora"])
def test_an_encoder_that_learnt_from_the_corpus_is_refused(name, mine):
    with refused("it was trained on these records"):
        usable(data="health", name=name, encoder=str(mine))


def test_what_an_encoder_lacks_is_refused_before_a_trial(mine):
    """Without reading its weights, so that a plan can say it."""
    usable(name="bert", encoder=str(mine))
    usable(name="bert", encoder="dialogues", num_layers=2)
    usable(name="features", layers=(2,))
    with refused(r"num_layers <= 6 with model\.encoder=dialogues, got 7"):
        usable(name="bert", encoder="dialogues", num_layers=7)
    with refused(r"layers among \[2, 4, 6\] .*encoder=dialogues, got \[0\]"):
        usable(name="features", layers=(0,))
    with refused(r"moments\.safetensors in the folder .* got none", InvalidData):
        usable(name="features", encoder=str(mine))
    (mine / WEIGHTS).unlink()
    for name in ("bert", "features"):
        with refused(r"weights \(model\.safetensors or", InvalidData):
            usable(name=name, encoder=str(mine))


@pytest.mark.parametrize(
    ("file", "content", "what"),
    [
        (MOMENTS, None, "the moments of an encoder"),
        (MOMENTS, b"no tensors", "the moments of an encoder"),
        (NAMES, b"no tensors", "scores of names"),
    ],
)
def test_moments_and_names_that_cannot_be_read_are_refused(
    file, content, what, tmp_path
):
    place = tmp_path / "mine"
    shutil.copytree(about_of("dialogues").place, place)
    (place / file).unlink()
    if content is not None:
        (place / file).write_bytes(content)
    with refused(f"expected {what} in {place}", InvalidData):
        built(name="features", encoder=str(place))
