"""No private record touches what counts as public: canaries in a corpus change nothing of it."""

import json

import numpy as np
import pytest
import torch

from tests.encoders import family_folders
from tests.lines import write_lines
from trainables.config import data_config, model_part
from trainables.data.corpus import open_corpus
from trainables.models.features import build

_PLACES = ("boston", "denver", "oslo", "paris")
_CANARY = "xylomantic " * 40  # a word of no public corpus, and the longest record


def corpus_in(folder, *, canaries):
    """Flights between places, and after them records of the canary."""
    folder.mkdir()
    rows = [
        {
            "tokens": ["fly", "from", one, "to", other],
            "tags": ["O", "O", "B-from", "O", "B-to"],
            "intent": "flight",
        }
        for one in _PLACES
        for other in _PLACES
    ]
    words = _CANARY.split()
    odd = [f"{words[0]}{k}" for k in range(canaries)]
    rows += [
        {"tokens": [*words, each], "tags": ["B-to"] * len(words) + ["O"], "intent": "fare"}
        for each in odd
    ]
    path = write_lines(folder / "pool.jsonl", rows)
    schema = folder / "schema.json"
    schema.write_text(json.dumps({"intents": ["fare", "flight"], "slots": ["from", "to"]}))
    config = data_config(
        name="json_lines",
        path=str(path),
        schema_file=str(schema),
        num_records=8,
    )
    return open_corpus(config, data_dir=folder, cache_dir=folder)


def public_parts(model):
    """Encoder, whitening with its mean, names, initial weights."""
    encoder = model.fixed[0].encoder
    found = dict(encoder.model.state_dict())
    for kind, white in zip(("tokens", "records"), model.fixed[0].own.white, strict=True):
        found |= {f"{kind} mean": white[0], f"{kind} root": white[1]}
    found |= dict(model.named_parameters())
    return {**found, **{f"{name} names": each for name, each in model.names.items()}}


@pytest.mark.parametrize("encoder", ["dialogues", "a folder of BERT"])
def test_canaries_change_no_public_part_and_no_other_record(tmp_path, encoder):
    fields = {"encoder": encoder}
    if encoder != "dialogues":
        family_folders.write(tmp_path / "bert", "bert")
        fields |= {"encoder": str(tmp_path / "bert"), "prior": "none"}
    parts, rows = [], []
    for canaries in (0, 3):
        corpus = corpus_in(tmp_path / f"{canaries} canaries", canaries=canaries)
        made = build(model_part(name="features", **fields), schema=corpus.schema, seed=0)
        # Moments that an encoder lacks are computed here, beside the rows of the corpus.
        loader = made.loader(corpus, cache_dir=tmp_path / f"{canaries} canaries")
        plain = np.array([k for k in range(corpus.num_records) if "fly" in words(corpus, k)])
        texts = [" ".join(words(corpus, k)) for k in plain]
        order = plain[np.argsort(texts)]
        assert len(order) == len(_PLACES) ** 2
        parts.append(public_parts(made))
        rows.append(loader.batch(order).inputs)
    assert parts[0].keys() == parts[1].keys()
    assert len(parts[0]) > 8
    for name, value in parts[0].items():
        assert torch.equal(value, parts[1][name]), name
    for name, value in rows[0].items():
        # Rows are float16; a batch of other records may round the last bit otherwise.
        torch.testing.assert_close(value, rows[1][name], rtol=2e-3, atol=1e-3)


def words(corpus, record):
    (found,) = corpus.token_sequences(np.array([record]))
    return tuple(found)
