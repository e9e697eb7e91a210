import pytest
import torch

from tests.models._builds import assert_sum_is_the_definitions
from trainables.dp.layers import char_cnn
from trainables.dp.layers.char_cnn import NUM_CHARS, CharCnn, encode
from trainables.dp.layers.packing import one_row_each

WORDS = ("flights", "from", "a", "Boston", "é", "x" * 30, "o'clock")
FILTERS, KERNEL = 5, 3


class Characters(torch.nn.Module):
    """The loss of a record is a sum over the features of its one word."""

    def __init__(self):
        super().__init__()
        self.features = CharCnn(4, FILTERS, KERNEL)
        self.share = torch.linspace(0.5, 2.0, FILTERS)

    def losses(self, word):
        chars = torch.from_numpy(encode(WORDS, KERNEL))
        return self.features(chars, word, one_row_each(len(word))) @ self.share


@pytest.mark.parametrize("at_once", [1, 2, 3, 6, 100])
def test_a_units_norm_does_not_depend_on_how_many_are_held_at_once(
    at_once, monkeypatch
):
    """Units beyond the first chunk are clipped as the first ones are."""
    monkeypatch.setattr(char_cnn, "_CHUNK", at_once * NUM_CHARS * FILTERS * KERNEL)
    torch.manual_seed(0)
    model = Characters()
    norms = assert_sum_is_the_definitions(
        model,
        torch.arange(len(WORDS)),
        units=(torch.tensor([5, 0, 3, 3, 1, 6, 2]), 7),
        weights=torch.rand(7) + 0.5,
        scale=torch.tensor([0.3, 0.5, 0.8], dtype=torch.float64),
        clip=0.5,
    )
    assert (norms > 0.5).sum() >= 5


def test_a_words_features_are_those_of_its_best_window():
    """By the definition, a word and a place at a time: windows beyond the word do not
    compete.
    """
    torch.manual_seed(1)
    layer = CharCnn(4, FILTERS, KERNEL)
    chars = torch.from_numpy(encode(WORDS, KERNEL))
    found = layer(chars, torch.arange(len(WORDS)), one_row_each(len(WORDS)))
    for word, ids, features in zip(WORDS, chars, found, strict=True):
        places = range(min(len(word), char_cnn.MAX_CHARS))
        windows = torch.stack([layer.embedding[ids[p : p + KERNEL]] for p in places])
        values = torch.einsum("pkd,fkd->pf", windows, layer.filters)
        torch.testing.assert_close(features, (values.amax(0) + layer.bias).relu())
