from dataclasses import replace

import pytest
import torch

from tests.models._builds import (
    ADAPTED,
    FULLY,
    MODELS,
    SCHEMA,
    assert_sum_is_the_definitions,
    build_model,
    random_batch,
    trained,
)
from trainables.dp.layers.bookkeeping import unsupported_modules


@pytest.mark.parametrize("name", MODELS)
def test_predictions(name):
    model = build_model(name).eval()
    batch = random_batch(model, 6, seed=1)
    found = model.predict(batch)
    assert found.intent_log_probs.shape == (6, len(SCHEMA.intents))
    assert found.token_marginals.shape == (int(batch.lengths.sum()), len(SCHEMA.tags))
    torch.testing.assert_close(found.intent_log_probs.exp().sum(1), torch.ones(6))
    torch.testing.assert_close(
        found.token_marginals.sum(1), torch.ones(len(found.token_marginals))
    )
    if name not in ADAPTED:  # whose tokens are trained apart
        losses = model.losses(batch).detach()
        torch.testing.assert_close(found.intent_losses + found.tag_losses, losses)
    # The best path's loss is minus its log-probability, and no path's is smaller.
    assert torch.equal(found.intents, found.intent_log_probs.argmax(1))
    best = model.predict(replace(batch, tags=found.tag_paths))
    torch.testing.assert_close(
        best.tag_losses, -found.path_log_prob, rtol=1e-5, atol=1e-5
    )
    assert (best.tag_losses <= found.tag_losses + 1e-5).all()


def test_a_label_outside_the_schema_teaches_nothing_and_scores_infinite():
    model = build_model("clc").eval()
    batch = random_batch(model, 3, seed=1)
    intents, tags = batch.intents.clone(), batch.tags.clone()
    intents[0] = -1
    tags[int(batch.lengths[:2].sum())] = -1  # the first token of the third record
    unknown = replace(batch, intents=intents, tags=tags)
    known, found = model.predict(batch), model.predict(unknown)
    assert found.intent_losses.isinf().tolist() == [True, False, False]
    assert found.tag_losses.isinf().tolist() == [False, False, True]
    expected = known.intent_losses * torch.tensor(
        [0, 1, 1]
    ) + known.tag_losses * torch.tensor([1, 1, 0])
    torch.testing.assert_close(model.losses(unknown).detach(), expected)


@pytest.mark.parametrize("name", MODELS)
def test_the_seed_decides_the_weights_and_dropout(name):
    torch.manual_seed(1)
    one = build_model(name)
    torch.manual_seed(2)
    two = build_model(name)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    batch = random_batch(one, 4, seed=2)
    one.begin_step(3, 4)
    two.begin_step(3, 4)
    first = one.losses(batch)
    assert torch.equal(first, two.losses(batch))
    for two._seed, step in ((one._seed, 5), (one._seed + 1, 4)):
        two.begin_step(3, step)
        assert torch.equal(first, two.losses(batch)) == (
            name in ADAPTED
        )  # without dropout


@pytest.mark.parametrize("name", MODELS)
def test_the_models_keep_books(name):
    model = build_model(name)
    assert not unsupported_modules(model)
    said, _, part = model.provenance.partition("; trained: ")
    assert (
        ("(mpnet, " in said)
        if name in ADAPTED
        else said == "trained from random weights"
    )
    assert bool(part) == (name not in FULLY)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_learns_a_batch_by_heart(name):
    model = build_model(name, dropout=0.0)
    batch = random_batch(model, 6, seed=1)
    optimizer = torch.optim.Adam(trained(model), lr=1e-2)
    first = float(model.losses(batch).detach().mean())
    for _ in range(40):
        optimizer.zero_grad()
        model.losses(batch).mean().backward()
        optimizer.step()
    # What stays at its random start can be read off less well.
    assert (
        float(model.losses(batch).detach().mean())
        < (0.2 if name in FULLY else 0.7) * first
    )


@pytest.mark.parametrize("name", FULLY)
def test_records_of_one_word_are_clipped_like_any_others(name):
    """They have no transition between tags."""
    model = build_model(name).eval()
    assert_sum_is_the_definitions(model, random_batch(model, 7, seed=3, longest=1))
