"""Rows that heads read, a function of one record and of public numbers alone; scores of
names.
"""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from trainables.data.records import LabelSchema
from trainables.models.encoders.rows import LayerStates, join_states, moments_of
from trainables.models.encoders.source import load_tensors
from trainables.models.nlu.label_names import NameScores, tag_names, with_bias
from trainables.pretraining.result import round_tensors

_SCHEMA = LabelSchema(intents=("book_flight",), slots=("city", "date"), source="test")


def states(count, *, seed=0):
    torch.manual_seed(seed)
    return torch.randn(count, 4) + 2.0, torch.randn(count, 4)


def test_each_layer_is_centred_and_of_norm_one():
    rows = join_states(states(7))
    for part in (rows[:, :4], rows[:, 4:]):
        torch.testing.assert_close(part.mean(1), torch.zeros(7), atol=1e-6, rtol=0)
        torch.testing.assert_close(part.norm(dim=1), torch.ones(7))


def moments(whole, layers, *, at_once):
    parts = zip(*(state.split(at_once) for state in whole), strict=True)
    tokens, records = moments_of(
        (LayerStates(part, part[::-1]) for part in parts), layers
    )
    assert tokens.layers == records.layers == tuple(layers)
    return tokens


def test_moments_are_those_of_all_rows_however_they_come():
    whole = states(50)
    found = moments(whole, [0, 1], at_once=20)
    rows = join_states(whole).double().numpy()
    np.testing.assert_allclose(found.mean, rows.mean(0), atol=1e-6)
    np.testing.assert_allclose(found.covariance, np.cov(rows.T, bias=True), atol=1e-6)


def test_a_choice_of_layers_is_that_of_their_columns():
    chosen = moments(states(50), [0, 1], at_once=50).of([1])
    np.testing.assert_allclose(
        chosen.covariance, moments(states(50), [1], at_once=50).covariance
    )


def test_whitened_rows_have_a_flat_spectrum():
    mean, root = moments(states(400), [0, 1], at_once=400).whitening(1e-6)
    rows = (join_states(states(400)) - mean) @ root
    values = np.sort(np.linalg.eigvalsh(np.cov(rows.numpy().T, bias=True)))[::-1]
    np.testing.assert_allclose(values[:6], 1.0, atol=0.02)
    assert values[6:].sum() < 0.02, "centring takes one direction of each layer"


def test_scores_are_bilinear_in_row_and_name():
    draw = torch.Generator().manual_seed(0)
    scores = NameScores(
        projection=torch.randn(6, 2, generator=draw),
        tokens=torch.randn(5, 7, generator=draw),
        records=torch.randn(2, 7, generator=draw),
    )
    rows = torch.randn(4, 6, generator=draw)
    vectors = scores.vectors(torch.randn(2, 6, generator=draw))
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(2))
    of_tags = scores.of_tokens(rows) @ tag_names(_SCHEMA, vectors).t()
    names = vectors @ scores.tokens[3:]
    o, b, i = scores.tokens[:3]
    tags = [o, *(0.7 * mark + name for name in names for mark in (b, i))]
    assert _SCHEMA.tags == ("O", "B-city", "I-city", "B-date", "I-date")
    torch.testing.assert_close(of_tags, with_bias(rows) @ torch.stack(tags).t())
    of_intents = scores.of_records(rows) @ vectors.t()
    torch.testing.assert_close(
        of_intents[:, 1], with_bias(rows) @ scores.records.t() @ vectors[1]
    )


@pytest.mark.parametrize(("bits", "off"), [(32, 0.0), (16, 1e-3), (8, 1 / 250)])
def test_a_weight_of_fewer_bits_is_near(tmp_path, bits, off):
    draw = torch.Generator().manual_seed(1)
    rows = torch.randn(40, 30, generator=draw) * torch.logspace(-3, 2, 40).unsqueeze(1)
    rows[7] = 0.0
    before = {
        "rows": rows,
        "vector": torch.randn(9, generator=draw),
        "count": torch.tensor([3]),
    }
    save_file(before, tmp_path / "w")
    round_tensors(tmp_path / "w", bits=bits)
    found = load_tensors(tmp_path / "w")
    assert found["count"].dtype == torch.int64
    largest = rows.abs().amax(1, keepdim=True)
    assert ((found["rows"] - rows).abs() <= off * largest).all()
    if bits == 8:
        assert (tmp_path / "w").stat().st_size < 40 * 30 + 40 * 4 + 600
