"""Drawing: laws of small models that can be written down, ends, prompts, and transformers."""

from collections import Counter
from itertools import pairwise

import pytest
import torch

from tests.refusals import refused
from trainables.config import part
from trainables.generation.decoding import Decoding, draw

END = 4


class Chain:
    """A Markov chain over 5 tokens as a language model; counts the rows that it has read."""

    def __init__(self, log_probs):
        self.log_probs = log_probs
        self.rows_read = 0

    def begin(self, num_rows, max_tokens):
        return self

    def read(self, tokens):
        self.rows_read += len(tokens)
        return self.log_probs[tokens]

    def keep(self, rows):
        """Nothing is remembered."""


def chain(seed=0):
    torch.manual_seed(seed)
    return Chain(torch.randn(5, 5).log_softmax(1))


@pytest.mark.parametrize("beams", [1, 3])
def test_the_least_temperature_of_a_config_draws_the_likeliest(beams):
    """A smaller one leaves the range of float32 after the whole budget is spent."""
    least = 1e-6
    with refused(r"greater than or equal to 0\.000001"):
        part("synthesis", {"temperature": least / 2})
    assert part("synthesis", {"temperature": least}).temperature == least
    model = chain()
    how = Decoding(end=END, max_tokens=2, num_beams=beams, temperature=least)
    best = int(model.log_probs[0].argmax())
    assert draw(model, [[0]] * 9, how, seed=0) == [[best] if best != END else []] * 9


def test_plain_sampling_follows_the_model():
    """A frequency of 4,000 draws is within 4 standard errors: false alarm below 0.1 percent."""
    model = chain()
    how = Decoding(end=END, max_tokens=3)
    found = draw(model, [[0]] * 4_000, how, seed=1)
    first = Counter(text[0] if text else END for text in found)
    expected = model.log_probs[0].exp()
    for token in range(5):
        p = float(expected[token])
        assert abs(first[token] / 4_000 - p) < 4 * (p * (1 - p) / 4_000) ** 0.5
    # The same draws compared with another row of the chain are rejected.
    wrong = model.log_probs[1].exp()
    gaps = [abs(first[t] / 4_000 - float(wrong[t])) for t in range(5)]
    assert max(gaps) > 4 * 0.5 / 4_000**0.5


def test_top_k_leaves_out_what_is_rarer():
    model = chain()
    allowed = set(model.log_probs[0].topk(2).indices.tolist())
    found = draw(model, [[0]] * 500, Decoding(end=END, max_tokens=2, top_k=2), seed=2)
    assert {text[0] if text else END for text in found} == allowed


@pytest.mark.parametrize("beams", [1, 3])
def test_texts_end_are_cut_and_go_out(beams):
    model = chain()
    how = Decoding(end=END, max_tokens=6, num_beams=beams)
    found = draw(model, [[0]] * 50, how, seed=3)
    assert all(END not in text and len(text) <= 5 for text in found)
    assert any(len(text) < 5 for text in found)
    endless = Chain(torch.tensor([[0.0, 0.0, 0.0, 0.0, -torch.inf]]).expand(5, 5))
    assert all(len(text) == 5 for text in draw(endless, [[0]] * 9, how, seed=3))
    at_once = Chain(torch.tensor([[-50.0, -50.0, -50.0, -50.0, 0.0]]).expand(5, 5))
    assert draw(at_once, [[0]] * 64, how, seed=3) == [[]] * 64
    assert at_once.rows_read == 64 * beams  # one step, then it stops


@pytest.mark.parametrize("beams", [1, 3])
def test_prompts_of_any_length_are_read_and_not_returned(beams):
    """A chain that counts up: 0 1 2 3 end."""
    up = torch.full((5, 5), -60.0)
    for token in range(4):
        up[token, token + 1] = 0.0
    openings = [[0], [0, 1], [0, 1, 2], [3, 3, 2], [1]]
    how = Decoding(end=END, max_tokens=9, num_beams=beams)
    assert draw(Chain(up), openings, how, seed=0) == [[1, 2, 3], [2, 3], [3], [3], [2, 3]]


@pytest.mark.parametrize("beams", [1, 3])
def test_a_seed_repeats_the_draw(beams):
    how = Decoding(end=END, max_tokens=12, num_beams=beams)
    one, again, other = (draw(chain(), [[0], [1, 2]] * 20, how, seed=s) for s in (5, 5, 6))
    assert one == again != other


def test_wider_beams_draw_likelier_texts():
    """Mean log-probability a token over 400 texts; the gap is many standard errors."""
    model = chain(3)

    def mean(beams):
        how = Decoding(end=END, max_tokens=12, num_beams=beams)
        total = 0.0
        for text in draw(model, [[0]] * 400, how, seed=1):
            path = [0, *text, END][: 12 + 1]
            steps = [float(model.log_probs[a, b]) for a, b in pairwise(path)]
            total += sum(steps) / len(steps)
        return total / 400

    assert mean(5) > mean(1) + 0.2


def test_beams_follow_the_law_of_transformers():
    """The same GPT-2, width 3, 600 texts each: frequencies of the whole text differ by chance.

    Total variation of two samples of 600 over few texts; a threshold of 0.2 is three times what
    two samples of one law show, and half of what plain sampling shows against them.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    from trainables.models._causal_lm import CausalLm, LmSizes
    from trainables.models._gpt2 import load_into

    torch.manual_seed(0)
    sizes = LmSizes(vocabulary=5, width=8, layers=1, heads=2, intermediate=32, positions=8)
    theirs = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=5, n_positions=8, n_embd=8, n_layer=1, n_head=2, initializer_range=0.7
        )
    ).eval()
    ours = CausalLm(sizes).eval()
    load_into(ours, theirs.state_dict())

    def drawn(beams):
        how = Decoding(end=END, max_tokens=4, num_beams=beams, top_k=4)
        return Counter(map(tuple, draw(ours, [[0]] * 600, how, seed=1)))

    found, plain = drawn(3), drawn(1)
    made = theirs.generate(
        torch.zeros(600, 1, dtype=torch.int64),
        attention_mask=torch.ones(600, 1, dtype=torch.int64),
        do_sample=True,
        num_beams=3,
        top_k=4,
        temperature=1.0,
        max_length=4,
        eos_token_id=END,
        pad_token_id=END,
        early_stopping=False,
    )
    truth = Counter()
    for row in made[:, 1:].tolist():
        truth[tuple(row[: row.index(END)] if END in row else row)] += 1

    def apart(one, two):
        return sum(abs(one[t] - two[t]) for t in one | two) / 1_200

    assert apart(found, truth) < 0.2, (found.most_common(6), truth.most_common(6))
    assert apart(plain, truth) > 0.3
