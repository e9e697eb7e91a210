"""Dropout whose mask belongs to the record, not to the batch.

Each mask bit is a hash of (seed, record, position, place in the model, feature): a record meets the
same mask whatever stands beside it in the batch, however the batch is cut into physical batches,
and on whichever worker. The seed is public; the noise of the mechanism comes from elsewhere.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LEVELS = 1 << 16


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _mix(values: Tensor) -> Tensor:
    """A fixed mixing of int32 (the rounds of MurmurHash3's finaliser), in place."""
    values ^= (values >> 16) & 0xFFFF
    values *= _signed(0x85EBCA6B)
    values ^= (values >> 13) & 0x7FFFF
    values *= _signed(0xC2B2AE35)
    values ^= (values >> 16) & 0xFFFF
    return values


def seed_words(seed: int) -> tuple[int, int]:
    """The lower and the upper 32 bits of a seed, as signed numbers."""
    return _signed(seed), _signed(seed >> 32)


class Masks:
    """The masks of one forward pass.

    `seed`: the pass (in a stack int32[n, 2], each row's by `seed_words`); `record` int64[n],
    `position` int64[n]: what each row is, rows packed.
    """

    def __init__(
        self, rate: float, *, seed: int | Tensor, record: Tensor, position: Tensor
    ) -> None:
        if not 0 <= rate < 1:
            raise ValueError(f"expected 0 <= dropout < 1, got dropout={rate}")
        self.dropped = round(rate * _LEVELS)
        self.scale = _LEVELS / (_LEVELS - self.dropped)
        low, high = seed.unbind(1) if isinstance(seed, Tensor) else seed_words(seed)
        keys = record.to(torch.int32) * _signed(0x9E3779B1) + low
        keys = _mix(keys) ^ (position.to(torch.int32) * _signed(0x7FEB352D) + high)
        self.rows = _mix(keys)

    def drop(self, x: Tensor, site: int) -> Tensor:
        """`x` [n, D] with a share `rate` of its numbers set to 0, the rest scaled up."""
        if self.dropped == 0:
            return x
        return x * self._factors(self.mask(x.shape[1], site)).to(x.dtype)

    def mask(self, width: int, site: int) -> Tensor:
        """bool[n, width], True where a number is kept. `site` tells places in the model apart."""
        pairs = torch.arange((width + 1) // 2, dtype=torch.int32, device=self.rows.device)
        return self._kept(self.rows.unsqueeze(1), self._mixed(pairs, site))[:, :width]

    def attention(self, longest: int, heads: int, site: int) -> Tensor:
        """Factors (0 or the scale) [n, heads, longest] for attention weights: query, head, key.

        A record's factors do not depend on `longest`.
        """
        keys = torch.arange((longest + 1) // 2, dtype=torch.int32, device=self.rows.device)
        numbers = torch.arange(heads, dtype=torch.int32, device=self.rows.device)
        columns = self._mixed((numbers.unsqueeze(1) << 16) + keys, site)
        kept = self._kept(self.rows.view(-1, 1, 1), columns)
        return self._factors(kept[..., :longest])

    def _mixed(self, columns: Tensor, site: int) -> Tensor:
        return _mix(columns * _signed(0x9E3779B1) + _signed(0x632BE59B * (site + 1)))

    def _kept(self, rows: Tensor, columns: Tensor) -> Tensor:
        """bool: two bits from the hash of each row and pair of columns."""
        bits = (rows ^ columns).mul_(_signed(0xC2B2AE35))
        # Shifts must be logical: xor with an arithmetic one would always clear the sign.
        bits ^= (bits >> 15).bitwise_and_(0x1FFFF)
        bits *= _signed(0x2C1B3C6D)
        bits ^= (bits >> 16).bitwise_and_(0xFFFF)
        return bits.view(torch.int16) >= self.dropped - _LEVELS // 2

    def _factors(self, kept: Tensor) -> Tensor:
        return kept.to(torch.float32).mul_(self.scale)
