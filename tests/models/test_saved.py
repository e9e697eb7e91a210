"""Model folders of others: what is damaged is one line that names the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from sweep.results.export_encoder import write_encoder
from tests.models._builds import MODELS, SCHEMA, build_model, read_fields
from trainables import catalogue, saved
from trainables.config import model_part
from trainables.data.records import NO_INTENT
from trainables.encoders.identity import files_digest
from trainables.errors import InvalidInput

_CLC = model_part(**MODELS["clc"]).model_dump(mode="json")
_ABOUT = {
    "model": _CLC,
    "intents": list(SCHEMA.intents),
    "slots": list(SCHEMA.slots),
    "schema_source": "invented",
}


def write(folder: Path, changes: dict[str, Any], *, nan: bool = False) -> Path:
    state = {name: tensor.clone() for name, tensor in build_model("clc").state_dict().items()}
    if nan:
        state["tag_head.weight"][0, 0] = torch.nan
    save_file(state, str(folder / "weights.safetensors"))
    (folder / "model.json").write_text(json.dumps(_ABOUT | changes), encoding="utf-8")
    return folder


def test_a_whole_folder_is_read(tmp_path: Path) -> None:
    found = saved.load(write(tmp_path, {}))
    assert found.schema.intents == SCHEMA.intents
    assert not found.model.training


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"intents": "abcde"}, r"expected intents in .*model\.json to be a list of names"),
        ({"intents": [["a"], "b", "c", "d", "e"]}, "expected intents in .* to be a list of names"),
        ({"intents": ["a", "a", "c", "d", "e"]}, "expected intents in .* to name each label once"),
        ({"slots": [1, 2, 3, 4, 5, 6]}, "expected slots in .* to be a list of names"),
        ({"intents": [NO_INTENT]}, r"expected weights in .* that fit its model\.json"),
        ({"model": {"name": "causal_lm"}}, "to be one of bert, clc, .* got 'causal_lm'"),
        ({"model": None}, "expected a readable model in"),
    ],
)
def test_a_damaged_description_is_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        saved.load(write(tmp_path, changes))


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    """Their labels would be arbitrary, and the confidence no number of JSON."""
    with pytest.raises(InvalidInput, match=r"expected finite weights in .*weights\.safetensors"):
        saved.load(write(tmp_path, {}, nan=True))


def test_word_vectors_of_another_file_are_refused(tmp_path: Path) -> None:
    """The rows of a trained table are those of the file's words in their order."""
    vectors = tmp_path / "words.vec"
    vectors.write_text("call 1 0\nann 0 1\n")
    config = model_part(**read_fields({**MODELS["clc"], "word_vectors": str(vectors)}))
    model = catalogue.entry("models", "clc").build(config, schema=SCHEMA, seed=0)
    save_file(dict(model.state_dict()), str(tmp_path / "weights.safetensors"))
    fields = config.model_dump(mode="json")
    about = {"model": fields, "encoder_digest": files_digest(fields)}
    (tmp_path / "model.json").write_text(json.dumps(_ABOUT | about), encoding="utf-8")
    saved.load(tmp_path)
    assert write_encoder(tmp_path) is None
    vectors.write_text("ann 1 0\ncall 0 1\n")
    os.utime(vectors, ns=(0, 0))
    for use in (saved.load, write_encoder):
        with pytest.raises(InvalidInput, match=rf"model\.word_vectors={vectors} as .* names it"):
            use(tmp_path)
    vectors.unlink()
    with pytest.raises(InvalidInput, match=r"words\.vec to be a file of word vectors, got none"):
        saved.load(tmp_path)
