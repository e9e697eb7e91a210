"""The choice of the matrix library: products are float32 with either."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from trainables.layers import products
from trainables.layers.products import library_for

ROUNDING = 1e-6  # relative to the product of absolute values; bfloat16 is off by 1e-3


def matmul() -> str:
    return str(torch.backends.mkldnn.matmul.fp32_precision)  # type: ignore[attr-defined]


@pytest.mark.parametrize("shape", [(700, 96, 300), (4_100, 17, 257), (40, 1_024, 512)])
def test_large_products_are_float32_in_every_form(shape: tuple[int, int, int]) -> None:
    rows, inner, outer = shape
    x, g, w = torch.randn(rows, inner), torch.randn(rows, outer), torch.randn(outer, inner)
    size = rows * inner * outer
    assert size >= products._LEAST
    with library_for(x, size):
        found = [F.linear(x, w), g @ w, torch.zeros(outer, inner).addmm_(g.t(), x), g.t() @ x]
    pairs = [(x, w.t()), (g, w), (g.t(), x), (g.t(), x)]
    for ours, (left, right) in zip(found, pairs, strict=True):
        bound = ROUNDING * (left.double().abs() @ right.double().abs())
        assert bool(((ours.double() - left.double() @ right.double()).abs() <= bound).all())


def test_small_products_and_other_types_stay_with_the_default() -> None:
    before = matmul()
    with library_for(torch.ones(8, 8), products._LEAST - 1):
        assert matmul() == before
    with library_for(torch.ones(8, 8, dtype=torch.float64), products._LEAST):
        assert matmul() == before


def test_the_choice_ends_with_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_is_faster_and_exact", lambda: True)
    before = matmul()
    with library_for(torch.ones(8, 8), products._LEAST):
        assert matmul() == "bf16"
    assert matmul() == before


def test_a_processor_whose_products_round_further_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check is what stands between bfloat16 tiles and the norms: it must see their rounding."""
    assert products._is_exact()
    real = F.linear
    monkeypatch.setattr(
        F, "linear", lambda a, b: real(a.bfloat16(), b.bfloat16()).to(torch.float32)
    )
    assert not products._is_exact()
