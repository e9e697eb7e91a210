"""Large float32 matrix products on a CPU, by the faster of PyTorch's two libraries.

PyTorch uses MKL, which does not use all features of AMD's processors. oneDNN, which PyTorch ships
too, is two to three times as fast there on large products and slower on small ones
(`benchmarks/heads.py`). PyTorch uses it for float32 only where products in bfloat16 are permitted.
oneDNN uses that permission only on processors with tile units for bfloat16 (AMX); elsewhere its
products are float32. `_is_exact` checks that, because norms and clipped sums must not be rounded
further than `layers.rounding` accounts for.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

_LEAST = 1 << 24  # number of multiplications from which switching the library is faster
_WIDTH, _SIDE = 64, 512  # of the products in `_is_exact`, which are as large as `_LEAST`
_FLOAT32 = 1e-6  # relative; a bfloat16 product of the numbers in `_is_exact` is off by 1e-4 or more


def library_for(x: Tensor, multiplications: int) -> AbstractContextManager[None]:
    """A context with the faster library for products of `x` with so many multiplications."""
    pays = (
        multiplications >= _LEAST
        and x.dtype == torch.float32
        and x.device.type == "cpu"
        and _is_faster_and_exact()
    )
    return _onednn() if pays else nullcontext()


def by_weight(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias`, the faster way: [n, I], [O, I], [O] -> [n, O]."""
    with library_for(x, x.shape[0] * weight.numel()):
        return F.linear(x, weight, bias)


@contextmanager
def _onednn() -> Iterator[None]:
    """A context in which float32 products are oneDNN's."""
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]  # newer than its stub
    before = matmul.fp32_precision
    matmul.fp32_precision = "bf16"
    try:
        yield
    finally:
        matmul.fp32_precision = before


@functools.cache
def _is_faster_and_exact() -> bool:
    """Whether this is an AMD processor with AVX-512 where oneDNN's products are float32."""
    found = torch.cpu.get_capabilities()
    return (
        "AMD" in str(found.get("cpu_name"))
        and bool(found.get("avx512_f"))
        and not any(found.get(name) for name in ("amx_tile", "amx_bf16", "amx_fp16"))
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch's
        and _is_exact()
    )


def _is_exact() -> bool:
    """Whether oneDNN's products of numbers that bfloat16 cannot hold are right to float32."""
    steps = torch.arange(_SIDE * _WIDTH, dtype=torch.float64)
    left = (1 + (steps % 61) / 2**12).view(_SIDE, _WIDTH)
    right = (1 + (steps % 53) / 2**13).view(_WIDTH, _SIDE)
    exact = left @ right
    a, b = left.float(), right.float()
    with _onednn():
        found = [
            a @ b,
            F.linear(a, b.t().contiguous()),
            torch.zeros(_SIDE, _SIDE).addmm_(a.t().contiguous().t(), b),
        ]
    return all(bool(((c.double() - exact).abs() <= _FLOAT32 * exact).all()) for c in found)
