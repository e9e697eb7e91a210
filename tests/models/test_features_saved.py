"""Heads that were saved and exported are read back with the encoder in their folder alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from sweep.results.export_encoder import write_encoder
from tests.models._builds import SCHEMA
from trainables import saved
from trainables.config import model_part
from trainables.models.features import build


def test_an_exported_folder_is_enough(tmp_path: Path) -> None:
    config = model_part(name="features", components=8)
    model = build(config, schema=SCHEMA, seed=0)
    torch.manual_seed(0)
    torch.nn.init.normal_(model.intent_head.weight)
    save_file(dict(model.state_dict()), str(tmp_path / "weights.safetensors"))
    about = {
        "model": config.model_dump(mode="json"),
        "intents": SCHEMA.intents,
        "slots": SCHEMA.slots,
        "schema_source": SCHEMA.source,
    }
    (tmp_path / "model.json").write_text(json.dumps(about))
    assert write_encoder(tmp_path) == tmp_path / "encoder"
    found = saved.load(tmp_path)
    assert found.config.encoder == str(tmp_path / "encoder")
    words = [saved.unlabelled(["call", "ann"])]
    ours = saved.SavedModel(model=model.eval(), config=config, schema=SCHEMA).read(words)
    np.testing.assert_allclose(found.read(words).features, ours.features, rtol=1e-5)
