"""Dropout with a mask for each record instead of each batch.

Each mask bit is a hash of (seed, record, position, place in the model, feature). A
record's mask does not depend on the other records of the batch, on the physical batches
or on the worker. The seed is public; the noise of the mechanism has another source.

On a CPU with a compiler `_dropout.c` writes the factors in one pass, with the same bits
in a fraction of the time, because torch has no hash operation and takes a pass for each
step of one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from ctypes import c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from trainables.dp.layers.packing import ByLength, TimeMajor
from trainables.dp.seeding import stream_seed
from trainables.system import native

_SOURCE = Path(__file__).with_name("_dropout.c")
_LEVELS = 1 << 16


def _to_signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _mix(values: Tensor) -> Tensor:
    """A fixed mixing of int32 (the rounds of MurmurHash3's finaliser), in place."""
    values ^= (values >> 16) & 0xFFFF
    values *= _to_signed(0x85EBCA6B)
    values ^= (values >> 13) & 0x7FFFF
    values *= _to_signed(0xC2B2AE35)
    values ^= (values >> 16) & 0xFFFF
    return values


class Masks:
    """The dropout masks of one forward pass over packed rows, drawn by record: a bit is
    a hash of `seed` (of the pass), the row's `record` key int64[n], its `position`
    int64[n] in the record, the place in the model and the feature. A record's mask does
    not depend on what else is in its batch. A share `rate` of the numbers is dropped.
    """

    def __init__(
        self, rate: float, *, seed: int, record: Tensor, position: Tensor
    ) -> None:
        self.dropped = round(rate * _LEVELS)
        self.scale = _LEVELS / (_LEVELS - self.dropped)
        keys = record.to(torch.int32) * _to_signed(0x9E3779B1) + _to_signed(seed)
        keys = _mix(keys) ^ (
            position.to(torch.int32) * _to_signed(0x7FEB352D) + _to_signed(seed >> 32)
        )
        self.rows = _mix(keys)

    def drop(self, x: Tensor, site: int) -> Tensor:
        """`x` [n, D] with a share `rate` of its numbers set to 0, the rest scaled
        up.
        """
        if self.dropped == 0:
            return x
        return x * self.factors(x.shape[1], site).to(x.dtype)

    def factors(self, width: int, site: int) -> Tensor:
        """float32[n, width]: 0 for a number that is dropped, else the scale. `site`
        distinguishes places in the model.
        """
        pairs = torch.arange(
            (width + 1) // 2, dtype=torch.int32, device=self.rows.device
        )
        return self._factors(
            self._column_hashes(pairs, site).unsqueeze(0), width
        ).squeeze(1)

    def attention(self, longest: int, heads: int, site: int) -> Tensor:
        """Factors (0 or the scale) [n, heads, longest] for attention weights: query,
        head, key.

        A record's factors do not depend on `longest`.
        """
        keys = torch.arange(
            (longest + 1) // 2, dtype=torch.int32, device=self.rows.device
        )
        numbers = torch.arange(heads, dtype=torch.int32, device=self.rows.device)
        columns = self._column_hashes((numbers.unsqueeze(1) << 16) + keys, site)
        return self._factors(columns, longest)

    def _factors(self, columns: Tensor, width: int) -> Tensor:
        """float32[n, groups, width] for the pairs of `columns` [groups, (width + 1) //
        2].
        """
        compiled = _native_factors() if self.rows.device.type == "cpu" else None
        if compiled is None:
            kept = self._is_kept(self.rows.view(-1, 1, 1), columns)[..., :width]
            return kept.to(torch.float32).mul_(self.scale)
        return self._factors_by(compiled, columns.contiguous(), width)

    def _factors_by(self, compiled: _Compiled, columns: Tensor, width: int) -> Tensor:
        rows = self.rows.contiguous()
        out = torch.empty(len(rows), len(columns), width)
        compiled(
            rows.data_ptr(), len(rows), columns.data_ptr(), len(columns),
            width, self.dropped - _LEVELS // 2, self.scale, out.data_ptr(),
        )  # fmt: skip
        return out

    def _column_hashes(self, columns: Tensor, site: int) -> Tensor:
        return _mix(
            columns * _to_signed(0x9E3779B1) + _to_signed(0x632BE59B * (site + 1))
        )

    def _is_kept(self, rows: Tensor, columns: Tensor) -> Tensor:
        """bool: two bits from the hash of each row and pair of columns."""
        bits = (rows ^ columns).mul_(_to_signed(0xC2B2AE35))
        # Shifts must be logical: xor with an arithmetic one would always clear the
        # sign.
        bits ^= (bits >> 15).bitwise_and_(0x1FFFF)
        bits *= _to_signed(0x2C1B3C6D)
        bits ^= (bits >> 16).bitwise_and_(0xFFFF)
        return bits.view(torch.int16) >= self.dropped - _LEVELS // 2


class Keyed(Protocol):
    """A batch whose records have keys: `text_keys` int64[B], equal for equal records
    whatever else is in the batch.
    """

    @property
    def text_keys(self) -> Tensor:
        """int64[B], in the batch's order."""


class DropsByRecord(nn.Module):
    """A base of models whose dropout is drawn by record from a public seed: that of the
    step where `begin_step` sets one, else a new draw of torch's global generator for
    each pass. A subclass sets `dropout`, the rate in [0, 1), and `_seed`, and
    multiplies rows by `masks`, which are None in eval mode and at rate 0.
    """

    dropout: float
    _seed: int
    _step: int | None = None

    def begin_step(self, *names: str | int) -> None:
        """Pin dropout to the step called `names` (epoch, step): a replay draws the same
        masks.
        """
        self._step = stream_seed(self._seed, "dropout", *names)

    def masks(self, batch: Keyed, layout: TimeMajor | ByLength) -> Masks | None:
        """Dropout for the rows of a layout; None where nothing is dropped."""
        if not self.training or self.dropout == 0:
            return None
        record = batch.text_keys.index_select(0, layout.record)
        seed = int(torch.randint(2**62, ())) if self._step is None else self._step
        return Masks(self.dropout, seed=seed, record=record, position=layout.position)


_Compiled = Callable[[int, int, int, int, int, int, float, int], None]


@functools.cache
def _native_factors() -> _Compiled | None:
    """`dropout_factors` of the C source; None where it is unavailable or gives other
    bits.
    """
    library = native.library(_SOURCE)
    if library is None:
        return None
    function = library.dropout_factors
    function.argtypes = [
        c_void_p,
        c_int64,
        c_void_p,
        *2 * [c_int64],
        c_int32,
        c_float,
        c_void_p,
    ]
    function.restype = None
    record = torch.arange(40)
    for rate, width in ((0.1, 1), (0.37, 1501)):
        masks = Masks(rate, seed=1, record=record, position=record % 7)
        columns = masks._column_hashes(
            torch.arange((width + 1) // 2, dtype=torch.int32), 5
        ).unsqueeze(0)
        ours = (
            masks._is_kept(masks.rows.view(-1, 1, 1), columns)[..., :width]
            * masks.scale
        )
        if not torch.equal(ours.float(), masks._factors_by(function, columns, width)):
            return None
    return function
