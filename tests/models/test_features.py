"""Heads on the features of a fixed encoder, with the one that ships."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F

from tests.models._builds import SCHEMA, TYPES, built, made_corpus, random_batch
from tests.refusals import refused
from trainables.data.records import LabelSchema
from trainables.dp.layers.bookkeeping import unsupported_modules
from trainables.errors import InvalidData
from trainables.models.encoders.about import about_of
from trainables.models.nlu.base import bio_scores
from trainables.models.nlu.features import tag_parts
from trainables.system import phase

model = partial(built, name="features")


def test_the_shipped_encoder_fits_a_package_and_read_no_private_record():
    found = about_of("dialogues")
    assert sum(file.stat().st_size for file in found.place.iterdir()) <= 25e6
    assert found.card["private_records_read"] == 0
    targets = {
        "atis",
        "snips",
        "nlu_eval",
        "communication",
    }  # the last where no ATIS is at hand
    assert not targets & {each["name"] for each in found.card["corpora"]}


def test_a_row_has_the_neighbours_of_its_record_alone():
    """Beside it stand those that its neighbours have of the lowest layer, zeros at the
    ends.
    """
    words, records = np.array([2, 1, 0, 3, 4]), np.array([3, 2])
    tables = [model(neighbours=weight).feature_table(TYPES) for weight in (0.0, 0.4)]
    rows = [table.collate(words, records)["tokens"] for table in tables]
    assert all((each[:, -1] == 0.3).all() for each in rows)
    plain, wide = (each[:, :-1] for each in rows)
    own, before, behind = wide.mul(1.32**0.5).split([plain.shape[1], 384, 384], dim=1)
    near = {"rtol": 2e-3, "atol": 2e-3}  # rows are rounded to float16
    torch.testing.assert_close(own, plain, **near)
    assert before[[0, 3]].abs().max() == behind[[2, 4]].abs().max() == 0
    torch.testing.assert_close(
        before[[2]], behind[[0]], **near
    )  # both are those of token 1
    torch.testing.assert_close(
        before[[1, 2, 4]].norm(dim=1), torch.full((3,), 0.4), **near
    )
    assert (wide.norm(dim=1) <= 1.001).all()


def test_the_heads_alone_are_trained():
    found = model()
    assert not unsupported_modules(found)
    assert {name for name, p in found.named_parameters() if p.requires_grad} == {
        "intent_head.weight",
        "tag_head.weight",
    }
    assert not any("encoder" in name for name in found.state_dict())


def test_decoding_obeys_the_bio_rules():
    found = model()
    torch.manual_seed(0)
    torch.nn.init.normal_(found.tag_head.weight, std=20.0)
    batch = random_batch(found, 40, seed=1)
    for path in found.predict(batch).tag_paths.split(batch.lengths.tolist()):
        for before, tag in pairwise(["O", *(SCHEMA.tags[k] for k in path)]):
            assert tag[0] != "I" or before[2:] == tag[2:]


def test_the_rows_of_each_recipe_are_kept_once_for_their_owner(tmp_path):
    corpus = made_corpus(tmp_path)
    for fields in ({}, {}, {"whitening": 1.0}, {"layers": (2,)}):
        model(**fields).loader(corpus, cache_dir=tmp_path)
    assert [place.stat().st_mode & 0o077 for place in tmp_path.glob("rows-*")] == [
        0,
        0,
        0,
    ]


def test_damaged_rows_are_named(tmp_path):
    found, corpus = model(), made_corpus(tmp_path)
    phase.FOLDER.set(tmp_path)
    found.loader(corpus, cache_dir=tmp_path)
    assert phase.of(tmp_path) == "features: 100%"
    (file,) = tmp_path.glob("rows-*/tokens.npy")
    file.write_bytes(file.read_bytes()[:-100])
    with refused("delete it", InvalidData):
        found.loader(corpus, cache_dir=tmp_path)


def test_layers_that_do_not_exist_are_named():
    with refused(r"model\.layers among \[2, 4, 6\]"):
        model(layers=(0, 7))


def test_the_card_can_name_what_is_public():
    assert "pretrained on sgd_dialogues (" in model().provenance
    whitening, names = model().public_inputs
    assert whitening.endswith("over utterances of the encoder's corpora")
    assert "labels' names" in names
    assert model(prior="none").public_inputs == [whitening]
    (about,) = about_of("dialogues").public_inputs(is_private=False)
    assert "share with atis" in about
    assert about.endswith("took 1 out of its pretraining")


def test_heads_at_zero_say_what_the_names_say():
    """Before the first step the scores are those of the names alone; without them all
    are equal.
    """
    with_names, without = model(), model(prior="none")
    said = with_names.predict(random_batch(with_names, 6, seed=2))
    (fixed,) = with_names.fixed
    read = fixed.rows(random_batch(fixed.encoder, 6, seed=2))["record_names"]
    scores = read @ fixed.name_vectors(SCHEMA)[0].t()
    within = {
        "rtol": 2e-3,
        "atol": 2e-3,
    }  # what they are computed from is rounded to float16
    torch.testing.assert_close(said.intent_log_probs, scores.log_softmax(1), **within)
    assert said.intent_log_probs.std(dim=1).min() > 1e-3
    silent = without.predict(random_batch(without, 6, seed=2))
    assert torch.equal(silent.intent_log_probs.std(dim=1), torch.zeros(6))


def test_names_are_a_constant_start_and_a_token_that_is_sure_teaches_nothing():
    """Gradients are those of the rows alone; that of a token grows with its loss from 0
    at a tag that is sure to the whole one at twice that loss.
    """
    found = model(sure=0.95)
    batch = random_batch(found, 9, seed=3)
    intents, tags = batch.inputs["intent_start"], batch.inputs["tag_start"]
    tags[range(len(tags)), batch.tags] += torch.linspace(0, 9, len(tags))
    heads = [found.intent_head.weight, found.tag_head.weight]
    of_intents, of_tags = torch.autograd.grad(found.losses(batch).sum(), heads)
    wrong = intents.softmax(1) - F.one_hot(batch.intents, intents.shape[1])
    torch.testing.assert_close(of_intents, wrong.t() @ batch.inputs["records"])
    losses = F.cross_entropy(tags, batch.tags, reduction="none")
    share = (losses / -math.log(0.95) - 1).clamp(0, 1)
    assert ((share > 0) & (share < 1)).any()
    wrong = (tags.softmax(1) - F.one_hot(batch.tags, tags.shape[1])) * share[:, None]
    expected = (wrong @ found.tag_head.shares).t() @ batch.inputs["tokens"]
    torch.testing.assert_close(of_tags, expected)
    assert "tag_head.shares" in found.state_dict(), (
        "saved weights mean nothing without S"
    )


NAMED = LabelSchema(
    intents=("a",), slots=("to.city", "from.city", "airline"), source="doc"
)


def test_tags_stay_apart_and_share_the_weights_of_their_parts():
    parts = tag_parts(NAMED)
    alike = parts @ parts.T
    assert np.linalg.matrix_rank(parts) == len(NAMED.tags)
    to, of, line = (NAMED.tags.index(f"B-{slot}") for slot in NAMED.slots)
    found = [*np.diag(alike), alike[to, of], alike[to, line], alike[0, 1:].max()]
    np.testing.assert_allclose(found, [*[1.0] * 7, 0.5, 0.1, 0.0], rtol=1e-6)


def test_only_bio_is_allowed_and_a_slot_gains_by_going_on():
    start, transitions = bio_scores(NAMED, bonus=2.5)
    for k, tag in enumerate(NAMED.tags):
        assert (start[k] == 0) == (tag[0] != "I")
        for m, after in enumerate(NAMED.tags):
            goes_on = tag != "O" and tag[2:] == after[2:]
            assert transitions[k, m] == (
                0 if after[0] != "I" else 2.5 if goes_on else -1e4
            )
