"""Model folders of others: what is damaged is one line that names the file."""

import os

import pytest
import torch

from sweep.results.export_encoder import write_encoder
from tests.models._builds import (
    MODELS,
    SCHEMA,
    build_model,
    built,
    read_fields,
    save_model,
)
from tests.refusals import refused
from trainables import saved
from trainables.config.trial import model_part
from trainables.data.records import NO_INTENT
from trainables.models.encoders.named_files import files_digest


def write(folder, changes, *, nan=False):
    model = build_model("clc")
    if nan:
        with torch.no_grad():
            model.tag_head.weight[0, 0] = torch.nan
    return save_model(folder, model, model_part(**MODELS["clc"]), **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"intents": "abcde"},
            r"expected intents in .*model\.json to be a list of names",
        ),
        (
            {"intents": [["a"], "b", "c", "d", "e"]},
            "expected intents in .* to be a list of names",
        ),
        (
            {"intents": ["a", "a", "c", "d", "e"]},
            "expected intents in .* to name each label once",
        ),
        ({"slots": [1, 2, 3, 4, 5, 6]}, "expected slots in .* to be a list of names"),
        ({"intents": [NO_INTENT]}, r"expected weights in .* that fit its model\.json"),
        (
            {"model": {"name": "causal_lm"}},
            "to be one of bert, clc, .* got 'causal_lm'",
        ),
        ({"model": None}, "expected a readable model in"),
    ],
)
def test_a_damaged_description_is_named(tmp_path, changes, message):
    with refused(message):
        saved.load(write(tmp_path, changes))


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    """Their labels would be arbitrary, and the confidence no number of JSON."""
    with refused(r"expected finite weights in .*weights\.safetensors"):
        saved.load(write(tmp_path, {}, nan=True))


def test_word_vectors_of_another_file_are_refused(tmp_path):
    """The rows of a trained table are those of the file's words in their order."""
    vectors = tmp_path / "words.vec"
    vectors.write_text("call 1 0\nann 0 1\n")
    config = model_part(**read_fields({**MODELS["clc"], "word_vectors": str(vectors)}))
    model = built(**config.model_dump(exclude_unset=True))
    save_model(
        tmp_path,
        model,
        config,
        encoder_digest=files_digest(config.model_dump(mode="json")),
    )
    found = saved.load(tmp_path)
    assert (found.schema.intents, found.model.training) == (SCHEMA.intents, False)
    assert write_encoder(tmp_path) is None
    vectors.write_text("ann 1 0\ncall 0 1\n")
    os.utime(vectors, ns=(0, 0))
    for use in (saved.load, write_encoder):
        with refused(rf"model\.word_vectors={vectors} as .* names it"):
            use(tmp_path)
    vectors.unlink()
    with refused(r"words\.vec to be a file of word vectors, got none"):
        saved.load(tmp_path)
