"""Private releases for initialising weights: counts of labels, and means of classes. Pure.

Each is a sum over records of a vector with norm at most 1, plus Gaussian noise. Adding or removing
a record changes the sum by at most 1, so noise of standard deviation sigma is a Gaussian mechanism
of that multiplier. Post-processing costs no epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.privacy.noise import SecretKey, add_noise_

_HALF = math.sqrt(0.5)  # shares of a record's bound for its intent and for its tags


@dataclass(frozen=True, eq=False)
class Labelled:
    """B records of `num_labels` = (I, K) intents and tags: `intents` int64[B] and `tags` int64[T]
    (-1: outside the schema, in no class), `record` int64[T] the record of each token; `records`
    [B, E] and `tokens` [T, D] are their rows.
    """

    intents: Tensor
    tags: Tensor
    record: Tensor
    records: Tensor
    tokens: Tensor
    num_labels: tuple[int, int]

    def tag_shares(self) -> Tensor:
        """float64[B, K]: the share of each tag among the record's known tags; rows have L1 norm 1
        at most, and so L2 norm."""
        known = self.tags >= 0
        shares = torch.zeros(len(self.intents), self.num_labels[1], dtype=torch.float64)
        ones = torch.ones(int(known.sum()), dtype=torch.float64)
        shares.index_put_((self.record[known], self.tags[known]), ones, accumulate=True)
        return shares / shares.sum(1, keepdim=True).clamp(min=1.0)


def counts_of(batch: Labelled) -> Tensor:
    """float64[B, I + K]: the contribution of each record to the counts, of norm at most 1."""
    intents = torch.zeros(len(batch.intents), batch.num_labels[0], dtype=torch.float64)
    known = batch.intents >= 0
    intents[known, batch.intents[known]] = 1.0
    return _HALF * torch.cat([intents, batch.tag_shares()], dim=1)


def sums_of_means(batch: Labelled) -> tuple[Tensor, Tensor]:
    """[I, E] and [K, D]: the contributions of the records of a batch to the sums of their classes.

    A record adds its row to its intent and, for each of its tags, the mean of its tokens' rows to
    that tag, over the root of their number. Longer rows are first scaled to norm 1, so that the
    contribution of a record has norm at most 1.
    """
    intents = torch.zeros(batch.num_labels[0], batch.records.shape[1], dtype=torch.float64)
    known = batch.intents >= 0
    intents.index_add_(0, batch.intents[known], _of_norm_one(batch.records[known]).double())
    shares = batch.tag_shares()
    present = (shares > 0).sum(1, keepdim=True).clamp(min=1).double()
    counts = shares * torch.bincount(batch.record[batch.tags >= 0], minlength=len(shares))[:, None]
    weights = 1 / (counts.clamp(min=1.0) * present.sqrt())  # of each token of that tag
    mine = batch.tags >= 0
    each = weights[batch.record[mine], batch.tags[mine]]
    tags = torch.zeros(batch.num_labels[1], batch.tokens.shape[1], dtype=torch.float64)
    rows = _of_norm_one(batch.tokens[mine]).double() * each[:, None]
    tags.index_add_(0, batch.tags[mine], rows)
    return _HALF * intents, _HALF * tags


def _of_norm_one(rows: Tensor) -> Tensor:
    """Rows [n, D], longer ones scaled to norm 1; a row that is not finite is 0."""
    norms = rows.double().norm(dim=1, keepdim=True)
    kept = (rows.double() / norms.clamp(min=1.0)).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    return torch.where(norms.isfinite(), kept, 0.0)


def add_noise(total: Tensor, *, std: float, key: SecretKey, name: str, trial_id: str) -> Tensor:
    """A sum with noise of standard deviation `std` in every entry. One `name` may be drawn once
    from a key.
    """
    flat = total.to(torch.float64).flatten().clone()
    stream = key.stream("start", name, trial_id)
    add_noise_(flat, stream=stream, segments=[(slice(0, len(flat)), std)], secure=True)
    return flat.view_as(total)


def log_shares(counts: Tensor, *, std: float) -> Tensor:
    """Noised counts [n] -> logarithms of shares, of mean 0. Counts are at least the noise, below
    which they carry no information.

    >>> log_shares(torch.tensor([2.0, 2.0]), std=0.1).tolist()
    [0.0, 0.0]
    """
    logs = counts.clamp(min=max(std, _HALF)).log()
    return logs - logs.mean()


def contrasts(sums: Tensor, *, constant: float, std: float) -> Tensor:
    """Noised sums [n, D + 1] of rows whose last entry is `constant` -> means of classes less the
    mean of all, [n, D + 1], the last entry 0. A class' number of records is read off that entry,
    and taken for no less than what its noise hides.

    Raises: ValueError unless constant > 0.
    """
    if not constant > 0:
        raise ValueError(f"expected constant > 0, got {constant}")
    least = max(std * math.sqrt(sums.shape[1]), _HALF)
    numbers = (sums[:, -1:] / constant).clamp(min=least)
    of_all = sums.sum(0) / numbers.sum()
    found = sums / numbers - of_all
    found[:, -1] = 0.0
    return found
