"""Views of a record: its mean gradient over several texts, clipped once."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.models._builds import SCHEMA, random_batch
from trainables.config import data_config, model_part, parse
from trainables.data.batches import Loader, PackedBatch
from trainables.data.corpus import open_corpus
from trainables.data.records import LabelSchema
from trainables.encoders import views
from trainables.engines._gradient import GradientSource
from trainables.errors import InvalidInput
from trainables.layers.packing import Rows
from trainables.models._features import Features
from trainables.models.features import build, require_usable
from trainables.privacy.flat import FlatGradient, Layout

VALUES = {("city", 1): (("paris",), ("rome",)), ("city", 2): (("new", "york"),)}


def model(**fields: object) -> Features:
    torch.manual_seed(0)
    found = build(model_part(name="features", components=16, **fields), schema=SCHEMA, seed=0)
    for own in found.parameters():
        if own.requires_grad:
            torch.nn.init.normal_(own, std=0.5)
    return found


def stack(found: Features, count: int) -> tuple[PackedBatch, list[PackedBatch]]:
    """Views of the same records with other rows: all in one batch, and each by itself."""
    first = random_batch(found, 6, seed=0)
    alone = [first]
    for seed in range(1, count):
        torch.manual_seed(seed)
        rows = {name: rows + 0.3 * torch.randn_like(rows) for name, rows in first.inputs.items()}
        alone.append(replace(first, inputs=rows))
    together = {name: torch.cat([each.inputs[name] for each in alone]) for name in first.inputs}
    return replace(first, inputs=together), alone


def by_definition(found: Features, batch: PackedBatch) -> Tensor:
    """[B]: the loss of one view as it was before there were several."""
    number = batch.num_records
    record = np.repeat(np.arange(number), batch.lengths.numpy())
    of_tokens, of_records = found._of_names(batch)
    tags = found._tag_logits(batch.inputs["tokens"], of_tokens, Rows(record, number))
    intents = found._intent_logits(batch.inputs["records"], of_records)
    each = F.cross_entropy(tags, batch.tags.clamp(min=0), reduction="none")
    each = each.masked_fill(batch.tags < 0, 0.0)
    summed = each.new_zeros(number).index_add(0, torch.from_numpy(record), each)
    losses = F.cross_entropy(intents, batch.intents.clamp(min=0), reduction="none")
    return losses.masked_fill(batch.intents < 0, 0.0) + found.tag_weight * summed


def test_one_view_is_the_record_itself_to_the_bit() -> None:
    found = model()
    batch = random_batch(found, 6, seed=0)
    assert torch.equal(found.losses(batch), by_definition(found, batch))


@pytest.mark.parametrize("count", [2, 3])
def test_a_record_s_gradient_is_the_mean_of_its_views_and_is_clipped_once(count: int) -> None:
    """Against autograd, view by view: the same sum of clipped means, and the same norms."""
    found = model()
    batch, alone = stack(found, count)
    number, bound = batch.num_records, 0.4
    trained = [p for p in found.parameters() if p.requires_grad]
    means = []
    for record in range(number):
        parts = []
        for each in alone:
            gradients = torch.autograd.grad(found.losses(each)[record], trained)
            parts.append(torch.cat([g.flatten() for g in gradients]))
        means.append(torch.stack(parts).mean(0))
    norms = torch.stack([mean.norm() for mean in means])
    assert (norms > bound).any()
    assert (norms < 100 * bound).all()
    expected = sum(mean * min(1.0, bound / float(mean.norm())) for mean in means)
    layout = Layout.of(found)
    out = FlatGradient(layout)
    got, losses = GradientSource(found).add_clipped(
        batch,
        torch.ones(number),
        out,
        unit_of_record=torch.arange(number),
        num_units=number,
        max_grad_norm=bound,
        group_scale=torch.ones(len(layout.names)),
    )
    torch.testing.assert_close(got.float(), norms, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(out.data, expected, rtol=1e-3, atol=1e-4)
    own = torch.stack([found.losses(each) for each in alone]).mean(0)
    torch.testing.assert_close(losses, own.detach(), rtol=1e-5, atol=1e-5)
    assert out.data.norm() <= bound * number * (1 + 1e-4)


def test_values_alone_are_swapped_for_public_ones_of_as_many_words() -> None:
    tokens = ("fly", "to", "san", "jose", "or", "oslo", "via", "x")
    tags = ("O", "O", "B-toloc.city_name", "I-toloc.city_name", "O", "B-city", "O", "B-else")
    seen = {views.swap_values(tokens, tags, VALUES, view=view) for view in range(1, 20)}
    assert seen == {
        ("fly", "to", "new", "york", "or", city, "via", "x") for city in ("paris", "rome")
    }
    again = views.swap_values(tokens, tags, VALUES, view=1)
    assert again == views.swap_values(tokens, tags, VALUES, view=1), "the same at every start"


def test_values_come_from_grammars_and_are_the_same_everywhere() -> None:
    found = views.public_values(["communication"])
    assert len(found["contact", 1]) > 20
    assert found == views.public_values(["communication"])
    assert all(len(words) == number for (_, number), each in found.items() for words in each)


def test_a_step_reads_every_view_and_a_measurement_the_record_alone(tmp_path: Path) -> None:
    """Views are computed once; the first is the record's own text."""
    config = data_config(name="communication", num_utterances=1_000)
    corpus = open_corpus(config, data_dir=tmp_path, cache_dir=tmp_path)
    fields = model_part(name="features", components=16, views=2, view_corpora=("communication",))
    found = build(fields, schema=corpus.schema, seed=0)
    own = found.loader(corpus, cache_dir=tmp_path)
    training = found.training_loader(corpus, own, cache_dir=tmp_path)
    ids = np.array([5, 900, 17])
    alone, both = own.batch(ids), training.batch(ids)
    seen = views.view_of(corpus, found.view_values, view=1)
    second = Loader(seen, found.fixed.encoder.feature_table(seen.types)).batch(ids)
    expected = found.fixed.rows(second)
    assert torch.equal(both.tags, alone.tags)
    for name, rows in alone.inputs.items():
        assert torch.equal(both.inputs[name][: len(rows)], rows)
        torch.testing.assert_close(
            both.inputs[name][len(rows) :], expected[name], rtol=2e-3, atol=1e-3
        )
    assert not torch.equal(both.inputs["tokens"][: len(alone.tags)], expected["tokens"])
    assert len([path for path in tmp_path.iterdir() if path.name.startswith("rows-")]) == 2
    one = build(model_part(name="features", components=16), schema=corpus.schema, seed=0)
    assert one.training_loader(corpus, own, cache_dir=tmp_path) is own


def test_views_of_other_labels_are_not_read_from_the_cache(tmp_path: Path) -> None:
    """The names of slots say which values are swapped, and a corpus' fingerprint lacks them."""
    config = data_config(name="communication", num_utterances=1_000)
    corpus = open_corpus(config, data_dir=tmp_path, cache_dir=tmp_path)
    fields = model_part(name="features", components=16, views=2, view_corpora=("communication",))
    other = copy.copy(corpus)
    slots = tuple("else" if slot == "contact" else slot for slot in corpus.schema.slots)
    other.schema = replace(corpus.schema, slots=slots)
    other._tag_names = other.schema.tags
    rows = []
    for each in (corpus, other):
        found = build(fields, schema=each.schema, seed=0)
        own = found.loader(each, cache_dir=tmp_path)
        training = found.training_loader(each, own, cache_dir=tmp_path)
        rows.append(training.batch(np.arange(200)).inputs["tokens"])
    assert not torch.equal(*rows)


def test_what_cannot_have_views_is_refused() -> None:
    for fields, message in (
        ({"views": 0}, r"model\.views"),
        ({"views": 2, "view_corpora": ()}, r"model\.view_corpora"),
        (
            {"views": 2, "view_corpora": ("atis",)},
            r"made corpora \(.*\), whose values are invented",
        ),
    ):
        with pytest.raises(InvalidInput, match=message):
            model_part(name="features", **fields)
    with pytest.raises(InvalidInput, match=r"unknown field model\.views"):
        model_part(name="clc", views=2)
    with pytest.raises(InvalidInput, match="without communication, whose records are trained on"):
        require_usable(model_part(name="features", views=2), data_config(name="communication"))
    without = LabelSchema(intents=("a",), slots=("nothing_alike",), source="test")
    with pytest.raises(InvalidInput, match="got none"):
        build(model_part(name="features", views=2), schema=without, seed=0)


def test_an_id_from_before_there_were_views_stays() -> None:
    usual = parse({"model": {"name": "features"}})
    assert parse({"model": {"name": "features", "views": 1}}).id == usual.id
    assert parse({"model": {"name": "features", "views": 2}}).id != usual.id
    assert "view_corpora" not in usual.model_dump()["model"]
