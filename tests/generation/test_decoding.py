"""Drawing with `transformers`: the model's own scores, ends, prompts, beams and
seeds.
"""

import pytest
import torch
import torch.nn.functional as F

from tests.models._texts import (
    EVERY,
    Letters,
    encode_texts,
    llama,
    small_lm,
    with_adapters,
)
from tests.refusals import refused
from trainables.config.trial import part
from trainables.generation.decoding import draw

LEAST = 1e-6  # temperature, at which the likeliest text is drawn
OPENINGS = [[0], [3, 1, 4], [0, 1], [1, 5, 9], [2], [6, 5, 3, 5]]


def sharp():
    """A language model that prefers some tokens; a fresh one draws nearly any."""
    model = small_lm(seed=1).eval()
    torch.nn.init.normal_(
        model.word.weight, std=0.15, generator=torch.Generator().manual_seed(0)
    )
    return model


def texts_of(model, openings=OPENINGS, *, seed=0, **how):
    how = {"end": Letters.end, "max_tokens": 12, **how}
    return draw(model.generator(), openings, seed=seed, **how)


@pytest.mark.parametrize(
    "model",
    [small_lm(), with_adapters(small_lm()), with_adapters(llama())],
    ids=["ours", "adapted", "llama"],
)
def test_what_draws_has_the_scores_of_the_model(model):
    batch = encode_texts(prompted=False).batch(EVERY[:1])
    scores = model.eval().generator()(batch.inputs.unsqueeze(0)).logits[0]
    found = F.cross_entropy(scores, batch.targets, reduction="none")
    torch.testing.assert_close(
        found, model.token_losses(batch)[1], rtol=1e-4, atol=1e-4
    )


def test_the_least_temperature_of_a_config_draws_the_likeliest():
    """A smaller one leaves the range of float32 after the whole budget is spent."""
    with refused(r"greater than or equal to 0\.000001"):
        part("synthesis", {"temperature": LEAST / 2})
    assert part("synthesis", {"temperature": LEAST}).temperature == LEAST
    model = sharp()
    expected = []
    for opening in OPENINGS:
        text = list(opening)
        while len(text) < 12 and (len(text) == len(opening) or text[-1] != Letters.end):
            text.append(
                int(model.generator()(torch.tensor([text])).logits[0, -1].argmax())
            )
        expected.append(
            [token for token in text[len(opening) :] if token != Letters.end]
        )
    assert texts_of(model, temperature=LEAST) == expected


@pytest.mark.parametrize("beams", [1, 3])
def test_a_text_depends_on_its_own_opening_and_not_on_its_place(beams):
    model = sharp()
    how = {"temperature": LEAST, "num_beams": beams}
    alone = [texts_of(model, [opening], **how)[0] for opening in OPENINGS]
    assert texts_of(model, **how) == alone
    assert len({tuple(text) for text in alone}) > 2


def test_top_k_leaves_out_what_is_rarer():
    model = small_lm().eval()
    allowed = (
        model.generator()(torch.tensor([[0]])).logits[0, -1].topk(2).indices.tolist()
    )
    found = texts_of(model, [[0]] * 100, max_tokens=2, top_k=2)
    assert {text[0] if text else Letters.end for text in found} == set(allowed)


@pytest.mark.parametrize("beams", [1, 3])
def test_texts_end_and_are_cut(beams):
    found = texts_of(small_lm().eval(), OPENINGS * 9, num_beams=beams)
    sizes = [len(text) + len(o) for text, o in zip(found, OPENINGS * 9, strict=True)]
    assert not any(Letters.end in text for text in found)
    assert max(sizes) == 12 > min(sizes)


@pytest.mark.parametrize("beams", [1, 3])
def test_a_seed_repeats_the_draw_and_leaves_the_global_state_alone(beams):
    model, before = sharp(), torch.get_rng_state()
    one, again, other = (
        texts_of(model, seed=seed, num_beams=beams) for seed in (5, 5, 6)
    )
    assert one == again != other
    assert torch.equal(before, torch.get_rng_state())


def test_wider_beams_draw_likelier_texts():
    """The mean loss of a token of 100 texts without end; the gap is many standard
    errors.
    """
    model = sharp()

    @torch.no_grad()
    def loss(beams):
        found = torch.tensor(
            texts_of(model, [[0]] * 100, num_beams=beams, end=Letters.size)
        )
        scores = model.generator()(found).logits[:, :-1]
        return float(F.cross_entropy(scores.flatten(0, 1), found[:, 1:].flatten()))

    assert loss(5) < loss(1) - 0.2
