import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from tests.models._builds import assert_sum_is_the_definitions, trained
from tests.models._texts import (
    EVERY,
    TEXTS,
    Letters,
    encode_texts,
    small_lm,
    with_adapters,
)
from tests.refusals import refused
from trainables.config.trial import model_part
from trainables.data.texts import EncodedTexts
from trainables.dp.layers import tied_table
from trainables.dp.layers.bookkeeping import gradient
from trainables.dp.layers.tied_table import TiedEntry
from trainables.generation.decoding import draw
from trainables.models.text.gpt2 import causal_lm
from trainables.models.text.tokenizers import load_bpe, train_bpe

UNITS = {
    "a record each": (torch.arange(7), 7),
    "two in one, one empty": (torch.tensor([2, 0, 2, 1, 5, 4, 1]), 6),
}


@pytest.mark.parametrize("kind", ["full", "adapters"])
@pytest.mark.parametrize("prompted", [False, True], ids=["plain", "prompted"])
@pytest.mark.parametrize("units", UNITS)
def test_norms_and_clipped_sum_equal_single_record_passes(units, prompted, kind):
    torch.manual_seed(0)
    model = small_lm(dropout=0.1)
    if kind == "adapters":
        with_adapters(model)
        maps = {
            tuple(name.split(".")[1:3])
            for name, p in model.named_parameters()
            if p.requires_grad
        }
        four = ("qkv", "attention_out", "inner", "outer")
        assert maps == {
            (str(n), name) for n in range(len(model.blocks)) for name in four
        }
    model.begin_step("a", 1)
    assert model.word.weight.requires_grad == (kind == "full")
    assert_sum_is_the_definitions(
        model,
        encode_texts(prompted=prompted).batch(EVERY),
        units=UNITS[units],
        weights=torch.rand(7) + 0.1,
        scale=torch.rand(len(trained(model))) + 0.5,
    )


def test_the_tied_table_never_takes_the_slow_way(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a unit's gradient was formed")

    monkeypatch.setattr(TiedEntry, "squared_norms", refuse)
    monkeypatch.setattr(tied_table, "_CELLS", 50)  # several pieces
    assert_sum_is_the_definitions(small_lm(), encode_texts(prompted=True).batch(EVERY))


def test_the_plain_gradient_is_autograds():
    model, batch, weights = (
        small_lm(),
        encode_texts(prompted=True).batch(EVERY),
        torch.rand(7),
    )
    truth = torch.autograd.grad((model.losses(batch) * weights).sum(), trained(model))
    ours = torch.zeros(sum(p.numel() for p in trained(model)))
    gradient(model, batch, weights, ours)
    torch.testing.assert_close(ours, torch.cat([g.flatten() for g in truth]))


def test_only_the_text_behind_a_prompt_counts():
    record, _ = small_lm().token_losses(encode_texts(prompted=True).batch(EVERY))
    assert torch.bincount(record).tolist() == [
        len(text) + 1 for text in TEXTS
    ]  # and the end


def test_it_computes_what_gpt2_computes():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    sizes = {
        "vocab_size": Letters.size,
        "n_positions": 40,
        "n_embd": 24,
        "n_layer": 2,
        "n_head": 3,
    }
    theirs = GPT2LMHeadModel(GPT2Config(**sizes)).eval()
    ours = causal_lm(theirs, positions=40).eval()
    batch = encode_texts(prompted=False).batch(EVERY[:1])
    truth = F.cross_entropy(
        theirs(batch.inputs.unsqueeze(0)).logits[0], batch.targets, reduction="none"
    )
    torch.testing.assert_close(ours.token_losses(batch)[1], truth, rtol=1e-4, atol=1e-5)


def test_width_must_be_a_multiple_of_heads():
    config = model_part(name="causal_lm", hidden_size=20, num_heads=3)
    with refused(r"multiple of model\.num_heads=3, got 20"):
        config.build(vocabulary=40, positions=32, seed=0)


def test_the_tokenizer_writes_any_text_and_is_repeatable(tmp_path):
    texts = ["book a table for two", "book a flight", "what is the weather"] * 5
    tokenizer = train_bpe(texts, size=320)
    tokenizer.save(tmp_path)
    again = load_bpe(tmp_path)
    for text in ("book a table", "Ärger at 4:30 pm ☂", '(Yield (f "x y"))', "<end>"):
        ids = tokenizer.encode(text)
        assert again.encode(text) == ids
        assert tokenizer.end not in ids
        assert again.decode([again.begin, *ids, again.end]) == text
    assert train_bpe(texts, size=320).encode("flight") == tokenizer.encode("flight")


def test_records_that_are_cut_are_known():
    """`begin text end` has room for 18 of 20 ids, a prompt for 8, and 9 of a text
    behind it.
    """
    rows = (
        (18, None, False),
        (19, None, True),
        (9, 8, False),
        (10, 8, True),
        (1, 9, True),
    )
    texts = ["a" * length for length, _, _ in rows]
    prompts = [None if length is None else "b" * length for _, length, _ in rows]
    found = EncodedTexts(texts, Letters(), max_tokens=20, prompts=prompts)
    assert found.cut.tolist() == [is_cut for _, _, is_cut in rows]
    longest = found.batch(np.array([1]))
    assert (longest.lengths.tolist(), int(longest.targets[-1])) == ([19], Letters.end)


def test_texts_and_prompts_are_tokenised_once():
    read = []

    class Counting(Letters):
        def encode(self, text):
            read.append(text)
            return super().encode(text)

    EncodedTexts(["a", "aa"], Counting(), max_tokens=20, prompts=["b", None])
    assert sorted(read) == ["a", "aa", "b"]


@pytest.mark.parametrize("tokens", [1, 12])
def test_a_text_is_drawn_as_often_as_it_was_read_however_long_it_is(tokens):
    """The loss is the likelihood of a record. A mean over its tokens would weigh the
    first token, where the texts part, by 1 / length: the short one would be drawn 1 /
    (1 + 2 / 13) = 87 % of the time. 95 % interval of a share of 400 draws at 1/2: +-
    .05; the bound leaves 1e-8.
    """
    torch.manual_seed(0)
    model = small_lm(dropout=0.0)
    letters = Letters()
    texts = EncodedTexts(["a", "b" * tokens], letters, max_tokens=16)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        adam.zero_grad()
        model.losses(texts.batch(np.array([0, 1]))).mean().backward()
        adam.step()
    openings = [[letters.begin]] * 400
    found = draw(
        model.eval().generator(), openings, seed=0, end=letters.end, max_tokens=16
    )
    share = sum(letters.decode(text) == "a" for text in found) / len(found)
    assert abs(share - 0.5) < 0.145


BPE = train_bpe(["flights <begin> or not", "an <end>"], size=320)
MARKS = st.sampled_from(
    ["<begin>", "<separator>", "<end>", "<", "end>", "flight", "é", " "]
)


@given(st.lists(MARKS).map("".join) | st.text())
def test_a_text_comes_back_whatever_it_says(text):
    ids = BPE.encode(text)
    assert BPE.decode(ids) == " ".join(text.split())
    assert {BPE.begin, BPE.separator, BPE.end}.isdisjoint(ids)
