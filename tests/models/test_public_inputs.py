"""No private record touches what counts as public: canaries in a corpus change nothing
of it.
"""

import numpy as np
import pytest
import torch

from tests.encoders import family_folders
from tests.encoders.test_learnt import corpus_in
from trainables.config.trial import model_part

_PLACES = ("boston", "denver", "oslo", "paris")
_FLIGHTS = [f"fly from {one} to {other}" for one in _PLACES for other in _PLACES]
# A word of no public corpus, in the longest records.
_CANARIES = [f"{'xylomantic ' * 40}xylomantic{k}" for k in range(3)]


def public_parts(model):
    found = dict(model.fixed[0].encoder.model.state_dict())
    for kind, white in zip(
        ("tokens", "records"), model.fixed[0].own.white, strict=True
    ):
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
    for number, texts in enumerate((_FLIGHTS, [*_FLIGHTS, *_CANARIES])):
        place = tmp_path / str(number)
        place.mkdir()
        corpus = corpus_in(place, texts)
        made = model_part(name="features", **fields).build(schema=corpus.schema, seed=0)
        # Moments that an encoder lacks are computed here, beside the rows of the
        # corpus.
        loader = made.loader(corpus, cache_dir=place)
        words = corpus.token_sequences(np.arange(len(corpus)))
        plain = [k for k in range(len(corpus)) if "fly" in words[k]]
        order = np.array(sorted(plain, key=words.__getitem__))
        assert len(order) == len(_FLIGHTS)
        parts.append(public_parts(made))
        rows.append(loader.batch(order).inputs)
    assert parts[0].keys() == parts[1].keys()
    assert len(parts[0]) > 8
    for name, value in parts[0].items():
        assert torch.equal(value, parts[1][name]), name
    for name, value in rows[0].items():
        # Rows are float16; a batch of other records may round the last bit otherwise.
        torch.testing.assert_close(value, rows[1][name], rtol=2e-3, atol=1e-3)
