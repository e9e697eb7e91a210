"""A user's module: whose masks it draws, how it encodes words, and which labels
count.
"""

import pytest
import torch

from tests.models._builds import SCHEMA, by_record, random_batch
from trainables.config.trial import model_part
from trainables.dp import per_record
from trainables.dp.seeding import stream_seed
from trainables.models.encoders.word_vectors import bucket

CODE = """
import torch
from torch import nn

class Tagger(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.words = nn.Embedding(40, 8)
        self.drop = nn.Dropout(0.5)
        self.tags = nn.Linear(8, len(labels.tags))
        self.intents = nn.Linear(8, len(labels.intents))

    def encode_word(self, word):
        return len(word) % 40

    def forward(self, words):
        x = self.drop(self.words(words))
        return self.tags(x), self.intents(x.mean(1))

def build(labels):
    return Tagger(labels)
"""


@pytest.fixture
def built(tmp_path, monkeypatch):
    return changed(tmp_path, monkeypatch, "", "", name="drawn_tagger")


def changed(place, patch, old, new, *, name):
    """The tagger with other words, in a module of that name."""
    assert old in CODE
    (place / f"{name}.py").write_text(CODE.replace(old, new))
    patch.syspath_prepend(place)
    return of_seed(0, f"{name}:build")


def of_seed(seed, factory="drawn_tagger:build"):
    config = model_part(name="module", factory=factory, word_buckets=40)
    return config.build(schema=SCHEMA, seed=seed).train()


def losses(model, *step):
    if step:
        model.begin_step(*step)
    torch.manual_seed(0)  # what a user's own seed would fix
    return model.losses(random_batch(model, 4, seed=1)).detach()


def test_masks_that_may_be_public_belong_to_the_seed_and_the_step(built):
    other = of_seed(1)
    assert not torch.equal(built.module.words.weight, other.module.words.weight)
    torch.manual_seed(stream_seed(0, "model", "module"))
    assert torch.equal(built.module.words.weight, torch.randn(40, 8)), (
        "as in every version"
    )
    other.load_state_dict(built.state_dict())
    first = losses(built, 0, 3)
    assert torch.equal(first, losses(built, 0, 3)), "a replay draws the same masks"
    built.begin_step(0, 3)
    losses(built.eval())  # which draws none
    assert torch.equal(first, losses(built.train()))
    assert not torch.equal(first, losses(built, 0, 4))
    assert not torch.equal(first, losses(other, 0, 3))
    assert not torch.equal(losses(built, 0, 3), losses(built)), (
        "a pass after another has its own"
    )


def test_no_public_seed_decides_a_secret_mask(built):
    """Also before the first step of a trial."""
    assert not torch.equal(losses(built), losses(of_seed(0)))
    built.keep_draws_secret()
    assert not torch.equal(losses(built, 0, 3), losses(built, 0, 3))


def test_a_module_that_encodes_words_is_asked(built):
    words = ["a", "four", "seventh"]
    assert built.feature_table(words).words.tolist() == [1, 4, 7]
    built._encodes = False
    assert built.feature_table(words).words.tolist() == [
        bucket(word, 40) for word in words
    ]


@pytest.mark.parametrize("at_once", [0, 1, 2, 3])
def test_the_clipped_sum_is_that_of_all_records_however_many_are_taken_at_once(
    built, at_once, monkeypatch
):
    """As many as there is room for, or one."""
    batch, weights = (
        random_batch(built.eval(), 40, seed=3),
        torch.linspace(0.5, 1.0, 40),
    )
    whole = by_record(built, batch, weights, 0.5)
    right, sizes = per_record.gradients, []

    def noted(model, inputs):
        sizes.append(len(inputs[0]))
        return right(model, inputs)

    monkeypatch.setattr(per_record, "gradients", noted)
    monkeypatch.setattr(per_record, "_BYTES_AT_ONCE", 4 * len(whole[0]) * at_once)
    torch.testing.assert_close(by_record(built, batch, weights, 0.5), whole)
    assert (sum(sizes), max(sizes)) == (40, max(1, at_once))
