"""bf16 products inside fp32 training.

Under `passes_in("bf16", device)` the linear maps and the LSTM's input products, forward
and towards their inputs, take bfloat16 operands (torch's autocast does the same to
foreign layers). Computations that privacy depends on stay float32: a layer records the
*rounded* activation and output gradient, widened, in the recorder, and the norm of a unit
and its clipped sum are computed from these same float32 numbers. A unit's contribution
is therefore at most C whatever was rounded before. Recurrences, attention,
normalisation, the CRF, losses, parameters and Adam are float32 too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor

Precision = Literal["fp32", "bf16"]


@contextmanager
def passes_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """A context in which forward passes on `device` take products in this `precision`:
    "fp32" changes nothing, "bf16" rounds the operands of linear maps and of the LSTM's
    input products, and of foreign layers as torch's autocast does. Norms, clipped sums,
    losses and weights stay float32 in both, so no bound depends on it.
    """
    if precision == "fp32":
        yield
        return
    # Weights change at every step, so a cache of rounded ones would only hold memory.
    with torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False):
        yield


def multiplies_bf16(device: str = "cpu") -> bool:
    """Whether a `device` of this type ("cpu", "cuda") has instructions for bfloat16
    products. A CPU has them with AVX512-BF16 or AMX; without, PyTorch takes about three
    times as long for such products as for float32's, so a plan says so. Every other
    device counts as able.
    """
    there = torch.cpu.get_capabilities()
    return device != "cpu" or any(
        there.get(n) for n in ("avx512_bf16", "amx_bf16", "bf16")
    )


def is_rounding(x: Tensor) -> bool:
    """Whether layers with input `x` currently take products in bfloat16."""
    return torch.is_autocast_enabled(x.device.type)


def as_operand(x: Tensor) -> Tensor:
    """`x` as products take it: rounded to bfloat16 inside `passes_in("bf16", ...)`,
    else itself. A layer records this very operand, so the norm of a unit's gradient is
    computed from the numbers that were multiplied and rounding cannot carry a
    contribution above the clip norm.
    """
    return x.to(torch.bfloat16) if is_rounding(x) else x


def product(x: Tensor, weight: Tensor) -> Tensor:
    """`x @ weight` in the type of `x`, to which `weight` is rounded."""
    return x @ weight.to(x.dtype)
