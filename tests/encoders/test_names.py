"""Scores of labels by their names, learnt on public corpora alone."""

import pytest
import torch
import torch.nn.functional as F

from trainables.data.records import LabelSchema
from trainables.encoders.names import NameScores, batches_of_names, tag_names, with_bias, words_of

_SCHEMA = LabelSchema(intents=("book_flight",), slots=("city", "date"), source="test")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fromloc.city_name", ("fromloc", "city", "name")),
        ("BookRestaurant", ("book", "restaurant")),
        ("atis_flight#atis_airfare", ("atis", "flight", "atis", "airfare")),
        ("größe", ("größe",)),
        ("", ("none",)),
    ],
)
def test_a_name_is_cut_into_words(name, words):
    assert words_of(name) == words


def test_names_share_their_words():
    types, places = batches_of_names(["to.city", "from.city"])
    assert [[types[k] for k in each] for each in places] == [["to", "city"], ["from", "city"]]
    assert len(types) == 3


def test_a_tag_is_its_mark_and_its_name():
    vectors = F.normalize(torch.tensor([[1.0, 0.0], [1.0, 1.0]]), dim=1)
    found = tag_names(_SCHEMA, vectors)
    assert _SCHEMA.tags == ("O", "B-city", "I-city", "B-date", "I-date")
    assert found[0].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    torch.testing.assert_close(found[1, 3:], vectors[0])
    torch.testing.assert_close(found[4, 3:], vectors[1])
    assert (found[1:, 0] == 0).all()
    assert not torch.equal(found[1], found[2])  # B is not I


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
    mark, name = scores.tokens[1], scores.tokens[3:].t() @ vectors[0]
    torch.testing.assert_close(of_tags[:, 1], with_bias(rows) @ (0.7 * mark + name))
    of_intents = scores.of_records(rows) @ vectors.t()
    torch.testing.assert_close(of_intents[:, 1], with_bias(rows) @ scores.records.t() @ vectors[1])
