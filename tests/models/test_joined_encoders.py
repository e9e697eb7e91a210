"""Heads on the joined rows of several encoders, which are as long as those of one."""

import json

import numpy as np
import pytest
import torch

from sweep.results.export_documents import write_model
from tests.encoders import family_folders
from tests.encoders.test_learnt import PUBLIC, having_learnt, mine, planned, prepared
from tests.models._builds import (
    SCHEMA,
    TYPES,
    assert_sum_is_the_definitions,
    built,
    made_corpus,
    random_batch,
    save_model,
)
from tests.refusals import refused
from trainables import saved
from trainables.config.trial import data_config, model_part, parse
from trainables.data.batches import Loader
from trainables.models.encoders.about import about_of
from trainables.models.encoders.named_files import ENCODER, files_digest
from trainables.tasks import nlu

SHIPPED = model_part(name="features").encoder


@pytest.fixture(scope="module")
def roberta(tmp_path_factory):
    place = tmp_path_factory.mktemp("of this machine") / "hub"
    family_folders.write(place, "roberta")
    return str(place)


def model(encoder, **fields):
    return built(name="features", encoder=encoder, **fields)


def rows(model, kind="tokens"):
    return random_batch(model, 6, seed=1).inputs[kind]


def test_a_list_of_one_is_the_encoder_alone():
    alone, listed = (
        parse({"model": {"name": "features", "encoder": e}})
        for e in (SHIPPED, [SHIPPED])
    )
    assert alone == listed
    assert alone.id == listed.id


@pytest.mark.parametrize("number", [2, 3])
def test_an_encoder_beside_itself_changes_no_inner_product(number):
    """So neither norms nor the heads' function, start included; the constant counts
    once.
    """
    one, many = (model(each, bias=0.0) for each in (SHIPPED, [SHIPPED] * number))
    assert many.token_width - 1 == number * (one.token_width - 1)
    for kind in ("tokens", "records"):
        own, joined = rows(one, kind), rows(many, kind)
        torch.testing.assert_close(
            joined @ joined.t(), own @ own.t(), rtol=1e-4, atol=1e-5
        )
        torch.testing.assert_close(
            joined.norm(dim=1), own.norm(dim=1), rtol=1e-4, atol=0
        )
    batches = [random_batch(each, 6, seed=1) for each in (one, many)]
    torch.testing.assert_close(one.losses(batches[0]), many.losses(batches[1]))


def test_rows_of_different_encoders_have_norm_one_and_come_from_the_same_words(roberta):
    """Each part is what its encoder alone gives for these tokens, whatever its pieces
    are.
    """
    plain = {"bias": 0.0, "neighbours": 0.0}
    joined = model([SHIPPED, roberta], **plain)
    alone = model(SHIPPED, **plain), model(roberta, prior="none", **plain)
    for kind in ("tokens", "records"):
        found, parts = rows(joined, kind), [rows(each, kind)[:, :-1] for each in alone]
        torch.testing.assert_close(found[:, :-1], torch.cat(parts, 1) / 2**0.5)
        norms = found.norm(dim=1)
        torch.testing.assert_close(norms, torch.ones_like(norms), rtol=1e-3, atol=0)
    for kind in ("tag_start", "intent_start"):
        assert torch.equal(rows(joined, kind), rows(alone[0], kind)), (
            "of the one that learnt names"
        )


def test_the_sensitivity_of_a_step_is_that_of_one_encoder(roberta):
    """So no learning rate or clip norm means another thing for a list of encoders."""
    one, twice, mixed = (
        model(e, neighbours=0) for e in (SHIPPED, 2 * [SHIPPED], [SHIPPED, roberta])
    )
    norms = [
        assert_sum_is_the_definitions(m, random_batch(m, 7, seed=2))
        for m in (one, twice)
    ]
    torch.testing.assert_close(norms[0], norms[1], rtol=1e-3, atol=0)
    assert_sum_is_the_definitions(mixed, random_batch(mixed, 7, seed=2))


def test_a_list_reuses_the_rows_of_each_encoder(roberta, tmp_path):
    corpus = made_corpus(tmp_path)
    model(SHIPPED).loader(corpus, cache_dir=tmp_path)
    model(roberta, prior="none").loader(corpus, cache_dir=tmp_path)
    kept = {place.name for place in tmp_path.glob("rows-*")}
    joined = model([SHIPPED, roberta], bias=0.1)
    loader = joined.loader(corpus, cache_dir=tmp_path)
    assert {place.name for place in tmp_path.glob("rows-*")} == kept
    assert len(kept) == 2
    ids = np.array([5, 50, 17])
    anew = Loader(corpus, joined.feature_table(corpus.types)).batch(ids).inputs
    for name, each in loader.batch(ids).inputs.items():
        torch.testing.assert_close(each, anew[name], rtol=2e-3, atol=1e-3)


def test_layers_are_of_each_encoder(roberta):
    there = about_of(SHIPPED).layers
    found = model([SHIPPED, roberta], layers=[there[:1], None])
    assert [each.layers for each in found.fixed] == [there[:1], (2, 3)]
    for each in model([SHIPPED, roberta], layers=[2]).fixed:
        assert each.layers == (2,)
    data = data_config(name="atis")
    for fields, said in (
        ({"layers": [None, [4]]}, r"layers among \[0, 1, 2, 3\] .*hub, got \[4\]"),
        ({"layers": [[99], None]}, rf"layers among \[.*\] .*{SHIPPED}, got \[99\]"),
        (
            {"layers": [[1], [2], [3]]},
            "numbers, or 2 of them, one for each model.encoder, got 3",
        ),
        ({"encoder": [roberta] * 2}, r"prior=none with model\.encoder=/.*, /"),
        ({"encoder": []}, r"model\.encoder: expected at least one value"),
        ({"encoder": [SHIPPED, 3]}, r"model\.encoder\.1: expected text, got 3"),
    ):
        with refused(said):
            config = model_part(
                name="features", **({"encoder": [SHIPPED, roberta]} | fields)
            )
            config.require_usable(data)


def test_every_encoder_is_compared_with_the_records_and_named(roberta, tmp_path):
    """What one of the hub has read is unknown, and the card says so beside its
    digest.
    """
    data = mine(tmp_path, PUBLIC[:400])
    fields = {"engine": "sgd", "training": {"epochs": 1, "expected_batch_size": 20}}
    learnt = having_learnt(tmp_path / "learnt")
    heads = {"name": "features", "encoder": [roberta, learnt]}
    [trial] = planned(tmp_path, base={**fields, "data": data, "model": heads})
    assert f"learned from the records of json_lines, got {learnt}" in str(trial.reason)
    heads = {"name": "features", "encoder": [roberta, SHIPPED]}
    with refused(f"without sgd_dialogues among its public corpora, got {SHIPPED}"):
        model_part(**heads).require_usable(data_config(name="sgd_dialogues"))
    own = mine(
        tmp_path, [f"call extension {n} of the northern office" for n in range(100)]
    )
    setup = prepared(tmp_path, {**fields, "data": own, "model": heads})
    said = " / ".join(nlu._public(setup))
    card = about_of(SHIPPED).card
    first, second = files_digest(dict(setup.config.model)).split(",")
    for words in (
        f"licence apache-2.0; what it learned from is not known here); SHA-256"
        f" {first[:12]}",
        f"encoder {SHIPPED}, pretrained on"
        f" {', '.join(each['name'] for each in card['corpora'])}"
        f" ({card['starts_from']}); SHA-256 {second[:12]}",
        f"pretraining texts of the encoder {SHIPPED}, which share no more records",
        "utterances of the made corpora health and video and utterances of the"
        " encoder's corpora",
    ):
        assert words in said
    assert "of this machine" not in said


def test_an_exported_folder_has_every_encoder(roberta, tmp_path):
    config = model_part(name="features", encoder=[SHIPPED, roberta])
    trained = config.build(schema=SCHEMA, seed=0)
    torch.manual_seed(0)
    torch.nn.init.normal_(trained.intent_head.weight)
    digest = files_digest(config.model_dump(mode="json"))
    place = save_model(tmp_path / "trial", trained, config, **{ENCODER: digest})
    trained.save_public(place)
    write_model(place, tmp_path / "export")
    written = json.loads((tmp_path / "export" / "model.json").read_text())
    assert written["model"]["encoder"] == [SHIPPED, "encoder/2"]
    assert not list((tmp_path / "export").glob("moments*"))
    assert (tmp_path / "export" / "encoder" / "2" / "moments.safetensors").is_file()
    found = saved.load(tmp_path / "export")
    assert found.config.encoder == tuple(
        str(tmp_path / f"export/encoder/{n}") for n in (1, 2)
    )
    words = [saved.unlabelled(TYPES[:3])]
    ours = saved.SavedModel(model=trained.eval(), config=config, schema=SCHEMA).read(
        words
    )
    np.testing.assert_allclose(found.read(words).features, ours.features, rtol=1e-5)
    save_model(
        place, trained, config, **{ENCODER: f"{digest.split(',')[0]},{'0' * 64}"}
    )
    for load in (saved.load, lambda folder: write_model(folder, tmp_path / "again")):
        with refused(
            r"expected model\.encoder=/.*hub as .* \(SHA-256 0{12}\), got another"
        ):
            load(place)
