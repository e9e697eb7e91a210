"""Masks belong to records: stable under batching, of the right rate, independent across
places.
"""

import math

import pytest
import torch

from tests.system.test_native import COMPILES
from trainables.dp.layers import dropout
from trainables.dp.layers.dropout import DropsByRecord, Masks
from trainables.dp.seeding import stream_seed

GOLDEN = ["a328ab2438d48052", "1cc64e127c4149da"]


def masks(rate, records, *, seed=5, moved=0):
    return Masks(
        rate, seed=seed, record=records, position=torch.arange(len(records)) % 7 + moved
    )


def kept(masks, width, site):
    return masks.factors(width, site) > 0


def test_a_record_meets_the_same_mask_in_any_batch():
    whole = kept(masks(0.3, torch.arange(50)), 33, 2)
    part = Masks(
        0.3, seed=5, record=torch.tensor([40, 3]), position=torch.tensor([40 % 7, 3])
    )
    part = kept(part, 33, 2)
    assert torch.equal(part, whole[[40, 3]])


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
def test_rate_and_scale(rate):
    """A mean over a million bits; 5 standard deviations, so a false alarm in 10^6 runs;
    and the same test refuses 2/3 and 3/2 of the rate.
    """
    mean = float(kept(masks(rate, torch.arange(1000)), 1000, 1).float().mean())
    bound = 5 * math.sqrt(rate * (1 - rate) / 1e6)

    def accepted(dropped):
        return abs(mean - (1 - dropped)) <= bound + 1e-5

    assert accepted(rate)
    assert rate == 0 or not (accepted(rate * 2 / 3) or accepted(rate * 3 / 2))
    ones = masks(rate, torch.arange(1000)).drop(torch.ones(1000, 1000), 1)
    assert float(ones.mean()) == pytest.approx(1, abs=bound / (1 - rate) + 1e-5)


@pytest.mark.parametrize(
    "pair", ["rows", "columns", "sites", "seeds", "positions", "heads"]
)
def test_bits_are_uncorrelated(pair):
    """Correlations over 250,000 bits, 5 standard deviations."""
    a = kept(masks(0.5, torch.arange(500)), 1001, 3)
    b = {
        "rows": a.roll(1, 0),
        "columns": a.roll(1, 1),
        "sites": kept(masks(0.5, torch.arange(500)), 1001, 4),
        "seeds": kept(masks(0.5, torch.arange(500), seed=6), 1001, 3),
        "positions": kept(masks(0.5, torch.arange(500), moved=1), 1001, 3),
        "heads": masks(0.5, torch.arange(500)).attention(1001, 2, 3)[:, 1].roll(2, 1)
        > 0,
    }[pair]
    correlation = ((a.float() - 0.5) * (b.float() - 0.5)).mean() * 4
    assert abs(float(correlation)) <= 5 / math.sqrt(a.numel())


@pytest.mark.parametrize("width", [1, 2, 33, 1501])
def test_compiled_or_not_the_factors_are_the_same_bit_for_bit(width, monkeypatch):
    if dropout._native_factors() is None:
        assert not COMPILES, "what can be compiled is used"
        pytest.skip("no C compiler (cc) on this machine")
    ours = masks(0.3, torch.arange(21))
    found = []
    for compiled in (dropout._native_factors(), None):
        monkeypatch.setattr(
            dropout, "_native_factors", lambda compiled=compiled: compiled
        )
        found.append((ours.factors(width, 4), ours.attention(width, 3, 2)))
    for one, other in zip(*found, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other)


def test_a_seed_gives_the_same_masks_in_every_version():
    """Golden values: a trial that goes on in a later version meets the masks it would
    have met.
    """
    made = Masks(
        0.5, seed=2**40 + 7, record=torch.tensor([3, 99]), position=torch.tensor([0, 5])
    )
    bits = kept(made, 64, 2).int()
    words = [int("".join(map(str, row)), 2) for row in bits.tolist()]
    assert [f"{word:016x}" for word in words] == GOLDEN
    model = DropsByRecord()
    model._seed = 7
    model.begin_step(1, 2)
    assert model._step == stream_seed(7, "dropout", 1, 2)
