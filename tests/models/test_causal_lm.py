"""The causal LM: what it computes, and that its per-record gradients are exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.models._builds import TOLERANCE, assert_bounds
from tests.models._texts import EVERY, SIZES, TEXTS, Letters, encode_texts, small_lm
from tests.privacy.definition import clipped_sum as definition
from trainables import engines
from trainables.config import PrivacyConfig, TrainingConfig
from trainables.data.texts import EncodedTexts
from trainables.errors import InvalidInput
from trainables.generation.decoding import Decoding, draw
from trainables.layers import tied_table
from trainables.layers.bookkeeping import clipped_sum, gradient, supports
from trainables.layers.tied import TiedEntry
from trainables.models._causal_lm import CausalLm, LmSizes
from trainables.models._tokenizers import load_bpe, train_bpe
from trainables.models.causal_lm import build
from trainables.privacy import from_config as mechanisms
from trainables.privacy.noise import public_key
from trainables.system.communication import Alone

UNITS = {
    "a record each": (torch.arange(7), 7),
    "two in one, one empty": (torch.tensor([2, 0, 2, 1, 5, 4, 1]), 6),
}


def trained(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


def by_parameter(model: nn.Module, flat: Tensor) -> dict[str, Tensor]:
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    parts = flat.split([p.numel() for _, p in named])
    return {name: part for (name, _), part in zip(named, parts, strict=True)}


@pytest.mark.parametrize("kind", ["full", "adapters"])
@pytest.mark.parametrize("prompted", [False, True], ids=["plain", "prompted"])
@pytest.mark.parametrize("units", UNITS)
def test_norms_and_clipped_sum_equal_single_record_passes(
    units: str, prompted: bool, kind: str
) -> None:
    torch.manual_seed(0)
    model = small_lm(dropout=0.1)
    if kind == "adapters":
        model.adapt(rank=2, alpha=8.0)
        for name, parameter in model.named_parameters():
            if name.endswith("up.weight"):
                nn.init.normal_(parameter)
    model.begin_step("a", 1)
    batch = encode_texts(prompted=prompted).batch(EVERY)
    of_record, number = UNITS[units]
    size = sum(p.numel() for p in trained(model))
    arguments = {
        "unit_of_record": of_record,
        "num_units": number,
        "weight_of_record": torch.rand(7) + 0.1,
        "group_scale": torch.rand(len(trained(model))) + 0.5,
    }
    truth, ours = torch.zeros(size), torch.zeros(size)
    norms = definition(model, batch, out=truth, max_grad_norm=1.0, **arguments)
    clip = float(norms[norms > 0].median())  # some clipped, some not
    truth.zero_()
    definition(model, batch, out=truth, max_grad_norm=clip, **arguments)
    found = clipped_sum(model, batch, out=ours, max_grad_norm=clip, **arguments)
    assert_bounds(found, norms)
    mine, its = by_parameter(model, ours), by_parameter(model, truth)
    assert ("word.weight" in mine) == (kind == "full")
    for name in mine:
        assert (mine[name] - its[name]).norm() <= TOLERANCE * its[name].norm() + 1e-9, name


def test_the_tied_table_never_takes_the_slow_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> Tensor:
        raise AssertionError("a unit's gradient was formed")

    monkeypatch.setattr(TiedEntry, "squared_norms", refuse)
    monkeypatch.setattr(tied_table, "_CELLS", 50)  # several pieces
    model, batch = small_lm(), encode_texts(prompted=True).batch(EVERY)
    size = sum(p.numel() for p in trained(model))
    scale = torch.ones(len(trained(model)))
    found = clipped_sum(
        model,
        batch,
        unit_of_record=torch.arange(7),
        num_units=7,
        weight_of_record=torch.ones(7),
        max_grad_norm=1.0,
        group_scale=scale,
        out=torch.zeros(size),
    )
    for place in range(7):
        alone = model.losses(encode_texts(prompted=True).batch(EVERY[place : place + 1]))
        parts = torch.autograd.grad(alone.sum(), trained(model))
        norm = torch.cat([part.flatten() for part in parts]).norm()
        assert_bounds(found[place], norm)


def test_a_tied_norm_needs_its_cross_term() -> None:
    """Without it the norm is off by far more than the tolerance above."""
    model, batch = small_lm(), encode_texts(prompted=False).batch(EVERY)
    loss = model.losses(batch)[0]
    below = torch.zeros_like(model.word.weight)
    (whole,) = torch.autograd.grad(loss, [model.word.weight], retain_graph=True)
    untied = CausalLm(SIZES)
    untied.load_state_dict(model.state_dict())
    untied.head.weight = nn.Parameter(model.head.weight.detach().clone())
    below, above = torch.autograd.grad(
        untied.losses(batch)[0], [untied.word.weight, untied.head.weight]
    )
    apart = (below.square().sum() + above.square().sum()).sqrt()
    torch.testing.assert_close(below + above, whole)
    assert abs(apart / whole.norm() - 1) > 1e-3


def test_the_plain_gradient_is_autograds() -> None:
    model, batch, weights = small_lm(), encode_texts(prompted=True).batch(EVERY), torch.rand(7)
    truth = torch.autograd.grad((model.losses(batch) * weights).sum(), trained(model))
    ours = torch.zeros(sum(p.numel() for p in trained(model)))
    gradient(model, batch, weights, ours)
    torch.testing.assert_close(ours, torch.cat([g.flatten() for g in truth]))


def test_an_engine_step_releases_the_clipped_sum(subtests: pytest.Subtests) -> None:
    texts = encode_texts(prompted=False)
    for physical in (None, 3):
        with subtests.test(physical=physical):
            model = small_lm()
            mechanism = mechanisms.build_from(
                "dp_sgd",
                PrivacyConfig(noise_multiplier=0.0, max_grad_norm=0.3),
                training=TrainingConfig(epochs=1, expected_batch_size=7),
                num_records=7,
            )
            engine_setup = engines.Setup(
                loader=texts,
                ids=EVERY,
                learning_rate=1e-3,
                key=public_key(0, "t"),
                comm=Alone(),
                physical_batch_size=physical,
            )
            from trainables.engines import dp_sgd

            expected = torch.zeros(sum(p.numel() for p in trained(model)))
            definition(
                model,
                texts.batch(EVERY),
                unit_of_record=torch.arange(7),
                num_units=7,
                weight_of_record=torch.ones(7),
                max_grad_norm=0.3,
                group_scale=torch.ones(len(trained(model))),
                out=expected,
            )
            engine = dp_sgd.make(model, mechanism, engine_setup)
            engine.step(0, 0)
            error = (engine.released - expected / 7).norm()
            assert error <= TOLERANCE * (expected / 7).norm()


@pytest.mark.parametrize("training", [False, True], ids=["scores", "training with dropout"])
def test_losses_do_not_depend_on_the_batch(training: bool) -> None:
    model = small_lm(dropout=0.2).train(training)
    model.begin_step(0, 0)
    texts = encode_texts(prompted=True)
    whole = model.losses(texts.batch(EVERY))
    part = model.losses(texts.batch(np.array([5, 2])))
    torch.testing.assert_close(part, whole[[5, 2]], rtol=1e-5, atol=1e-5)


def test_a_row_sees_no_later_token() -> None:
    model, tokens = small_lm(), Letters()
    one, two = "a cat sat", "a cat sob"
    first, second = (
        model.token_losses(EncodedTexts([text], tokens, max_tokens=40).batch(np.array([0])))[1]
        for text in (one, two)
    )
    torch.testing.assert_close(first[:7], second[:7])
    assert (first[7:] - second[7:]).abs().max() > 1e-6


def test_only_the_text_behind_a_prompt_counts() -> None:
    batch = encode_texts(prompted=True).batch(EVERY)
    record, _ = small_lm().token_losses(batch)
    counts = torch.bincount(record).tolist()
    assert counts == [len(text) + 1 for text in TEXTS]  # and the end


def test_reading_token_by_token_gives_the_scores_of_a_whole_pass() -> None:
    model, texts = small_lm().eval(), encode_texts(prompted=False)
    batch = texts.batch(np.array([4]))
    continued = model.begin(2, 40)
    losses = []
    for token, target in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        scores = continued.read(torch.tensor([0, token]))
        losses.append(float(-scores[1].log_softmax(0)[target]))
        if len(losses) == 3:
            continued.keep(torch.tensor([1, 1]))  # the other text is forgotten
    torch.testing.assert_close(torch.tensor(losses), model.token_losses(batch)[1].detach())


def test_it_computes_what_gpt2_computes() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    from trainables.models._gpt2 import load_into

    torch.manual_seed(1)
    sizes = LmSizes(vocabulary=50, width=24, layers=2, heads=3, intermediate=96, positions=32)
    theirs = GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_positions=32, n_embd=24, n_layer=2, n_head=3, attn_pdrop=0.0)
    ).eval()
    ours = CausalLm(sizes).eval()
    load_into(ours, theirs.state_dict())
    ids = torch.randint(50, (1, 20))
    truth = theirs(ids).logits[0]
    continued = ours.begin(1, 20)
    found = torch.cat([continued.read(token.view(1)) for token in ids[0]])
    torch.testing.assert_close(found, truth, rtol=1e-4, atol=1e-5)


def test_width_must_be_a_multiple_of_heads() -> None:
    from trainables.config import model_part

    config = model_part(name="causal_lm", hidden_size=20, num_heads=3)
    with pytest.raises(InvalidInput, match=r"multiple of model\.num_heads=3, got 20"):
        build(config, vocabulary=40, positions=32, seed=0)


def test_the_tokenizer_writes_any_text_and_is_repeatable(tmp_path: Path) -> None:
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


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"expected a tokenizer \(tokenizer.json\)"):
        load_bpe(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidInput, match="damaged"):
        load_bpe(tmp_path)


def test_long_texts_are_cut_and_keep_an_end() -> None:
    texts = EncodedTexts(["a" * 90], Letters(), max_tokens=20, prompts=["b" * 90])
    batch = texts.batch(np.array([0]))
    assert batch.lengths.tolist() == [19]
    assert batch.targets[-1] == Letters.end
    assert supports(small_lm())


def test_records_that_are_cut_are_known() -> None:
    """`begin text end` has room for 18 of 20 ids, a prompt for 8, and 9 of a text behind it."""
    rows = ((18, None, False), (19, None, True), (9, 8, False), (10, 8, True), (1, 9, True))
    texts = ["a" * length for length, _, _ in rows]
    prompts = [None if length is None else "b" * length for _, length, _ in rows]
    found = EncodedTexts(texts, Letters(), max_tokens=20, prompts=prompts)
    assert found.cut.tolist() == [is_cut for _, _, is_cut in rows]


def test_texts_and_prompts_are_tokenised_once() -> None:
    read: list[str] = []

    class Counting(Letters):
        def encode(self, text: str) -> list[int]:
            read.append(text)
            return super().encode(text)

    EncodedTexts(["a", "aa"], Counting(), max_tokens=20, prompts=["b", None])
    assert sorted(read) == ["a", "aa", "b"]


@pytest.mark.parametrize("tokens", [1, 12])
def test_a_text_is_drawn_as_often_as_it_was_read_however_long_it_is(tokens: int) -> None:
    """The loss is the likelihood of a record. A mean over its tokens would weigh the first token,
    where the texts part, by 1 / length: the short one would be drawn 1 / (1 + 2 / 13) = 87 % of
    the time. 95 % interval of a share of 400 draws at 1/2: +- .05; the bound leaves 1e-8.
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
    how = Decoding(end=letters.end, max_tokens=16)
    found = draw(model.eval(), [[letters.begin]] * 400, how, seed=0)
    share = sum(letters.decode(text) == "a" for text in found) / len(found)
    assert abs(share - 0.5) < 0.145


BPE = train_bpe(["flights <begin> or not", "an <end>"], size=320)
MARKS = st.sampled_from(["<begin>", "<separator>", "<end>", "<", "end>", "flight", "é", " "])


@given(st.lists(MARKS).map("".join) | st.text())
def test_a_text_comes_back_whatever_it_says(text: str) -> None:
    ids = BPE.encode(text)
    assert BPE.decode(ids) == " ".join(text.split())
    assert {BPE.begin, BPE.separator, BPE.end}.isdisjoint(ids)
