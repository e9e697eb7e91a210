"""Public encoders of every family: words and pieces, rows that hang on one record
alone, refusals.

The folders are small and random, with a tokenizer of the family's own kind.
"""

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from torch.nn.utils.rnn import pad_sequence

from sweep.results.export_encoder import write_encoder
from tests.encoders import family_folders
from tests.encoders.family_folders import with_config
from tests.models._builds import SCHEMA, save_model
from tests.refusals import refused
from trainables.config.trial import data_config, model_part
from trainables.data.batches import batch_of_texts
from trainables.errors import InvalidData
from trainables.models.configs import COVERED
from trainables.models.encoders.hub import public_encoder
from trainables.models.encoders.pieces import WordCutter
from trainables.models.encoders.source import HubEncoder

WORDS = (
    "show",
    "Flights",
    "réveille",
    "o'clock",
    "4:30pm",
    "san",
    "zzz日",
    "boston",
    "x" * 40,
)
Folders = Callable[[str], Path]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of a family, made once."""
    place = tmp_path_factory.mktemp("families")

    def of(family):
        if not (place / family).exists():
            family_folders.write(place / family, family)
        return place / family

    return of


@pytest.fixture(params=sorted(family_folders.KINDS))
def encoder(request, folders):
    return HubEncoder(public_encoder(str(folders(request.param))))


def batch(encoder, *records):
    texts = [[WORDS[place] for place in record] for record in records]
    return batch_of_texts(texts, encoder.feature_table)


def test_pieces_and_first_pieces_are_those_of_the_whole_text(encoder):
    """Against `tokenizers` on the words of a record, which says which word a piece is
    of; of a byte-level one as with `add_prefix_space`.
    """
    record = [1, 0, 5, 2, 3, 4, 7]
    found = batch(encoder, record).inputs
    words = [WORDS[place] for place in record]
    whole = Tokenizer.from_file(str(encoder.public.place / "tokenizer.json"))
    whole.no_padding()
    whole.no_truncation()
    is_byte_level = encoder.public.config.model_type in (
        "deberta",
        "modernbert",
        "roberta",
    )
    assert encoder.cutter.before == (" " if is_byte_level else "")
    if is_byte_level:
        whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    cut = whole.encode(words, is_pretokenized=True)
    first = [cut.word_ids.index(word) for word in range(len(words))]
    assert cut.ids[1:-1] == whole.encode(" ".join(words), add_special_tokens=False).ids
    assert found["pieces"].tolist() == cut.ids
    assert found["first_piece"].tolist() == first


def test_states_are_those_of_transformers(encoder):
    """Padded and masked by `transformers`, packed here."""
    found = batch(encoder, [1, 2, 7], [0], [4, 5, 6, 1, 3])
    lengths = found.inputs["piece_lengths"].tolist()
    pieces = found.inputs["pieces"].split(lengths)
    padding = int(encoder.model.config.pad_token_id or 0)
    padded = pad_sequence(pieces, batch_first=True, padding_value=padding)
    mask = pad_sequence([torch.ones_like(p) for p in pieces], batch_first=True)
    with torch.no_grad():
        truth = encoder.model(
            padded, attention_mask=mask, output_hidden_states=True
        ).hidden_states
    states = encoder.layer_states(found)
    assert len(states.tokens) == len(truth) == encoder.public.config.num_layers + 1
    for tokens, records, whole in zip(
        states.tokens, states.records, truth, strict=True
    ):
        rows = torch.cat([row[:n] for row, n in zip(whole, lengths, strict=True)])
        torch.testing.assert_close(
            tokens, rows[found.inputs["first_piece"]], rtol=1e-4, atol=1e-4
        )
        means = torch.stack(
            [row[:n].mean(0) for row, n in zip(whole, lengths, strict=True)]
        )
        torch.testing.assert_close(records, means, rtol=1e-4, atol=1e-4)


def test_a_record_longer_than_the_positions_is_read_in_windows(encoder):
    """The first window is a record of its own."""
    found = batch(encoder, [2] * 130)
    pieces = found.inputs["pieces"]
    limit = encoder.public.positions
    assert len(pieces) > 2 * limit
    window = torch.cat([pieces[: limit - 1], torch.tensor([encoder.cutter.end])])
    with torch.no_grad():
        truth = encoder.model(
            window.unsqueeze(0), output_hidden_states=True
        ).hidden_states
    first = found.inputs["first_piece"]
    inside = first[first < limit - 1]
    states = encoder.layer_states(found)
    for own, whole in zip(states.tokens, truth, strict=True):
        assert own.isfinite().all()
        torch.testing.assert_close(
            own[: len(inside)], whole[0, inside], rtol=1e-4, atol=1e-4
        )


def assert_read(public, model):
    words, own = (
        m.embeddings.word_embeddings for m in (HubEncoder(public).model, model)
    )
    assert torch.equal(words.weight, own.weight)


def test_pickled_weights_are_read_without_running_them(folders, tmp_path):
    model = family_folders.write(tmp_path, "roberta")
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    public = public_encoder(str(tmp_path))
    assert_read(public, model)
    ran = tmp_path / "ran"

    class Runs:
        def __reduce__(self):
            return Path.touch, (ran,)

    torch.save(
        {"embeddings.word_embeddings.weight": Runs()}, tmp_path / "pytorch_model.bin"
    )
    with refused("an encoder that loads", InvalidData):
        _ = HubEncoder(public).model
    assert not ran.exists()


def test_the_digest_is_of_what_is_read(tmp_path):
    family_folders.write(tmp_path, "bert")
    before = public_encoder(str(tmp_path)).digest()
    (tmp_path / "README.md").write_text("other words")
    (tmp_path / "model-fp16.safetensors").write_bytes(b"other weights")
    assert public_encoder(str(tmp_path)).digest() == before
    file = tmp_path / "config.json"
    about, written = json.loads(file.read_text()), file.stat()
    file.write_text(json.dumps(about | {"layer_norm_eps": 1e-5}))
    os.utime(
        file, ns=(written.st_atime_ns, written.st_mtime_ns)
    )  # as with a clock of a second
    assert public_encoder(str(tmp_path)).digest() != before


def test_weights_in_parts_are_read_by_their_index(tmp_path):
    model = family_folders.write(tmp_path, "bert")
    (tmp_path / "model.safetensors").unlink()
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("model-*-of-*.safetensors"))) > 1
    public = public_encoder(str(tmp_path))
    assert len(public.digest()) == 64
    assert_read(public, model)


def _in_parts_without_index(place):
    for number in (1, 2):
        (place / f"model-0000{number}-of-00002.safetensors").write_bytes(b"a part")
    (place / "model.safetensors").unlink()


def _without(*names):
    def change(place):
        for name in names:
            (place / name).unlink()

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            with_config(model_type="gpt2"),
            r"a known family \(albert, bert, .* of type 'gpt2'",
        ),
        (with_config(auto_map={"AutoModel": "mine.Own"}), r"its own code \(auto_map\)"),
        (_without("config.json"), r"a folder with a config\.json"),
        *(
            (with_config(**{field: value}), rf"config\.json, got {field}=")
            for field in ("num_hidden_layers", "hidden_size", "max_position_embeddings")
            for value in ({}, [3], "auto", None, math.inf, 2.5, True, -1, 10**40)
        ),
        (with_config(model_type=["bert"]), r"config\.json, got model_type=\['bert'\]"),
        (with_config(pad_token_id="auto"), r"config\.json, got pad_token_id='auto'"),
        (
            _without("model.safetensors"),
            r"expected weights \(model\.safetensors or pytorch",
        ),
        (
            _in_parts_without_index,
            r"pytorch_model\.bin, or parts with their index\) in",
        ),
        (_without("tokenizer.json"), r"expected a tokenizer\.json"),
    ],
)
def test_what_cannot_be_used_is_refused_by_the_plan(tmp_path, change, problem):
    family_folders.write(tmp_path, "bert")
    config = model_part(name="features", encoder=str(tmp_path), prior="none")
    config.require_usable(data_config(name="atis"))
    change(tmp_path)
    with refused(problem):
        config.require_usable(data_config(name="atis"))


def test_the_tokenizer_is_that_of_its_file(tmp_path):
    """The library's class of the config lowers case where the file keeps it."""
    family_folders.write(tmp_path, "bert")
    file = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    file.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    file.add_tokens(["Boston"])
    file.save(str(tmp_path / "tokenizer.json"))
    cutter = WordCutter.of_folder(tmp_path, name="x")
    file.no_padding()
    file.no_truncation()
    expected = file.encode("Boston", add_special_tokens=False).ids
    assert list(cutter.table(["Boston"]).pieces[: len(expected)]) == expected
    config = tmp_path / "tokenizer_config.json"
    config.write_text(
        json.dumps(json.loads(config.read_text()) | {"do_lower_case": True})
    )
    with refused("to agree on do_lower_case, got False and True"):
        WordCutter.of_folder(tmp_path, name="x")


@pytest.mark.parametrize("offline", [True, False])
def test_a_hub_name_without_network_is_one_line_within_seconds(
    monkeypatch, tmp_path, offline
):
    """One request, no second one: its own client would wait 23 seconds between six."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    config = model_part(name="features", encoder="nobody/nothing", prior="none")
    began = time.monotonic()
    with refused(
        "got 'nobody/nothing': no such folder, nothing of it in the hub's"
    ) as caught:
        config.require_usable(data_config(name="atis"))
    assert time.monotonic() - began < 8
    assert ("HF_HUB_OFFLINE" in str(caught.value)) == offline


def test_weights_that_are_missing_are_named(tmp_path):
    family_folders.write(tmp_path, "bert")
    kept = load_file(str(tmp_path / "model.safetensors"))
    kept.pop("encoder.layer.1.output.dense.weight")
    save_file(kept, str(tmp_path / "model.safetensors"), metadata={"format": "pt"})
    with refused(r"got none for encoder\.layer\.1\.output\.dense"):
        _ = HubEncoder(public_encoder(str(tmp_path))).model


@pytest.mark.parametrize("family", COVERED)
def test_what_is_trained_is_the_encoder(family, tmp_path):
    """Our layers with its weights give its states; back in a folder of `transformers`
    too.
    """
    sizes = {"embedding_size": 24} if family == "electra" else {}
    family_folders.write(tmp_path / "hub", family, **sizes)
    config = model_part(name="bert", encoder=str(tmp_path / "hub"), num_layers=2)
    config.require_usable(data_config(name="atis"))
    ours = config.build(schema=SCHEMA, seed=0).eval()
    theirs = HubEncoder(public_encoder(str(tmp_path / "hub")))
    found = batch(theirs, [1, 2, 7], [0], [4, 5, 6, 1, 3])
    for name, inputs in batch(ours, [1, 2, 7], [0], [4, 5, 6, 1, 3]).inputs.items():
        assert torch.equal(inputs, found.inputs[name])
    states = theirs.layer_states(found)
    for own, truth in zip(
        ours.layer_states(found).tokens, states.tokens[:3], strict=True
    ):
        torch.testing.assert_close(own, truth, rtol=1e-4, atol=1e-4)
    again = write_encoder(save_model(tmp_path / "model", ours, config))
    assert again is not None
    back = HubEncoder(public_encoder(str(again)))
    same = back.layer_states(batch(back, [1, 2, 7], [0], [4, 5, 6, 1, 3])).tokens[2]
    torch.testing.assert_close(same, states.tokens[2], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("family", "sizes", "problem"),
    [
        ("modernbert", {}, "with family modernbert; model.name=features reads it"),
        ("albert", {}, "with family albert"),
        ("electra", {}, "with embeddings of width 12"),
        ("bert", {"hidden_act": "gelu_new"}, "with activation gelu_new"),
    ],
)
def test_layers_that_are_not_covered_are_refused_by_the_plan(
    tmp_path, family, sizes, problem
):
    family_folders.write(tmp_path, family, **sizes)
    config = model_part(name="bert", encoder=str(tmp_path), num_layers=2)
    with refused(problem):
        config.require_usable(data_config(name="atis"))
