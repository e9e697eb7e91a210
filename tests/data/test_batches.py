"""Batches are exact cuts of the corpus: any order, no padding, every record once when
evaluated.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from trainables.data import batches
from trainables.data.batches import Loader


class Echo:
    """A feature table that hands back what it was given."""

    def collate(self, token_ids, lengths):
        return {
            "tokens": torch.from_numpy(token_ids),
            "lengths": torch.from_numpy(lengths),
        }


@pytest.fixture
def corpus():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 20, 500)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return SimpleNamespace(
        offsets=offsets,
        tokens=rng.integers(0, 99, offsets[-1]).astype(np.int32),
        types=[f"word{number}" for number in range(99)],
        tags=rng.integers(-3, 7, offsets[-1]).astype(np.int16),
        intents=rng.integers(-3, 5, 500).astype(np.int16),
    )


def test_a_batch_has_the_requested_records_in_order(corpus):
    ids = np.array([499, 3, 3, 0])
    batch = Loader(corpus, Echo()).batch(ids)
    pieces = [slice(corpus.offsets[i], corpus.offsets[i + 1]) for i in ids]
    expected = np.concatenate([corpus.tokens[piece] for piece in pieces])
    np.testing.assert_array_equal(batch.inputs["tokens"], expected)
    tags = np.concatenate([corpus.tags[piece] for piece in pieces])
    np.testing.assert_array_equal(batch.tags, np.maximum(tags, -1))
    np.testing.assert_array_equal(batch.intents, np.maximum(corpus.intents[ids], -1))
    np.testing.assert_array_equal(batch.lengths, np.diff(corpus.offsets)[ids])
    np.testing.assert_array_equal(
        batch.text_keys, Loader(corpus, Echo()).text_keys(ids)
    )
    tensors = (batch.tags, batch.intents, batch.lengths, batch.text_keys)
    assert {tensor.dtype for tensor in tensors} == {torch.int64}
    assert batch.num_records == 4


def test_an_empty_batch_is_refused(corpus):
    with pytest.raises(ValueError, match="at least one record"):
        Loader(corpus, Echo()).batch(np.array([], dtype=np.int64))


@pytest.mark.parametrize("window", [64, 10_000])
def test_evaluation_sees_every_record_once_within_the_token_limit(
    corpus, monkeypatch, window
):
    monkeypatch.setattr(batches, "_WINDOW", window)
    ids = np.random.default_rng(1).permutation(500)[:333]
    seen = []
    for places, batch in Loader(corpus, Echo()).evaluation_batches(ids, max_tokens=100):
        np.testing.assert_array_equal(
            batch.intents, np.maximum(corpus.intents[ids[places]], -1)
        )
        assert int(batch.lengths.sum()) <= 100
        seen.append(places)
    assert sorted(np.concatenate(seen).tolist()) == list(range(333))
    assert len(seen) < 333 * 20 / 100 * 1.3  # the limit is used


def test_a_record_longer_than_the_limit_goes_alone(corpus):
    found = list(Loader(corpus, Echo()).evaluation_batches(np.arange(50), max_tokens=1))
    assert [batch.num_records for _, batch in found] == [1] * 50


def test_nothing_to_evaluate_gives_no_batch(corpus):
    ids = np.array([], dtype=np.int64)
    assert list(Loader(corpus, Echo()).evaluation_batches(ids, max_tokens=9)) == []
