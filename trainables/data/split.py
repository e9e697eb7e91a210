"""Who is trained on, who is validated on, who is tested on. Pure: arrays in, arrays out.

`paper` and `official` are fixed splits. `bernoulli` and `paired` are for measuring leakage: every
trial draws its own members from one audit pool by independent fair coins, while the validation and
the test part are the same for all trials, so that their SER compares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainables.config import DataConfig
from trainables.errors import InvalidInput
from trainables.seeding import generator

Ids = NDArray[np.int64]

TRAIN_SHARE, VALIDATION_SHARE = 0.45, 0.05  # Dupuy et al. 2021, section 4.1; the rest is test
# In the audited modes these are the same records in every trial; half of the rest is trained on.
COMMON_VALIDATION_SHARE, COMMON_TEST_SHARE = 0.05, 0.15
_TRAIN, _VALIDATION, _TEST = 0, 1, 2  # `Corpus.part`


@dataclass(frozen=True, eq=False)
class Split:
    """Record ids, each part in increasing order and disjoint from the others.

    With the modes `bernoulli` and `paired`: `audit_pool` are the records that a coin was thrown
    for, `mask` bool[len(audit_pool)] says who was drawn into `train`; `pairs` int64[P, 2] are the
    matched pairs (one of each is in `train`), None for `bernoulli`.
    """

    train: Ids
    validation: Ids
    test: Ids
    audit_pool: Ids | None = None
    mask: NDArray[np.bool_] | None = None
    pairs: Ids | None = None


def training_size(pool_size: int, config: DataConfig) -> int | None:
    """n of a split of `pool_size` distinct records where it does not depend on them, else None.

    `bernoulli` draws about half of the audit pool and `paired` at most half of it: the declared
    size is that half, rounded down.

    >>> training_size(5474, DataConfig(split="paper"))
    2463
    """
    if config.split == "paper":
        return round(TRAIN_SHARE * pool_size)
    if config.split in ("bernoulli", "paired"):
        return _audit_size(pool_size) // 2
    return None


def make_split(
    config: DataConfig,
    *,
    part: NDArray[np.integer],
    intents: NDArray[np.integer],
    lengths: NDArray[np.integer],
    mask_seed: int,
) -> Split:
    """The split of n records; `part`, `intents`, `lengths` [n] describe them.

    `config.split_seed` decides what all trials share, `mask_seed` the trial's own coins.

    Raises: InvalidInput where a part would be empty.
    """
    n = len(part)
    if config.split == "official":
        split = _official(part, config.split_seed)
    elif config.split == "paper":
        line = generator(config.split_seed, "split", "paper").permutation(n)
        train, validation = round(TRAIN_SHARE * n), round(VALIDATION_SHARE * n)
        split = Split(*_sorted(line, train, train + validation))
    else:
        split = _audited(config, intents=intents, lengths=lengths, mask_seed=mask_seed)
    for name in ("train", "validation", "test"):
        if len(getattr(split, name)) == 0:
            raise InvalidInput(
                f"expected records in the {name} part with data.split={config.split}, got none of {n}"
            )
    return split


def _sorted(line: Ids, first: int, second: int) -> tuple[Ids, Ids, Ids]:
    train, validation, test = np.split(line, [first, second])
    return np.sort(train), np.sort(validation), np.sort(test)


def _official(part: NDArray[np.integer], seed: int) -> Split:
    """The corpus' own parts; where it has no validation part, 5 % of its training part is one."""
    train, validation, test = (
        np.flatnonzero(part == which) for which in (_TRAIN, _VALIDATION, _TEST)
    )
    if len(validation) == 0 and len(train) > 1:
        line = generator(seed, "split", "official").permutation(train)
        held = max(1, round(VALIDATION_SHARE * len(train)))
        train, validation = np.sort(line[held:]), np.sort(line[:held])
    return Split(train, validation, test)


def _audit_size(n: int) -> int:
    return n - round(COMMON_VALIDATION_SHARE * n) - round(COMMON_TEST_SHARE * n)


def _audited(
    config: DataConfig,
    *,
    intents: NDArray[np.integer],
    lengths: NDArray[np.integer],
    mask_seed: int,
) -> Split:
    n = len(intents)
    line = generator(config.split_seed, "split", "audited").permutation(n)
    held = round(COMMON_VALIDATION_SHARE * n)
    pool, validation, test = _sorted(line, _audit_size(n), _audit_size(n) + held)
    coins = generator(mask_seed, "split", config.split)
    if config.split == "bernoulli":
        mask = coins.random(len(pool)) < 0.5
        return Split(pool[mask], validation, test, audit_pool=pool, mask=mask)
    pairs = _pairs(pool, intents, lengths)
    side = coins.integers(2, size=len(pairs))
    chosen = pairs[np.arange(len(pairs)), side]
    audited = np.sort(pairs.ravel())
    mask = np.isin(audited, chosen)
    return Split(np.sort(chosen), validation, test, audit_pool=audited, mask=mask, pairs=pairs)


def _pairs(pool: Ids, intents: NDArray[np.integer], lengths: NDArray[np.integer]) -> Ids:
    """Pairs of one intent and of nearest length, [P, 2]; an odd one of an intent is in no pair."""
    order = pool[np.lexsort((pool, lengths[pool], intents[pool]))]
    kept = []
    for intent in np.unique(intents[pool]):
        same = order[intents[order] == intent]
        kept.append(same[: len(same) // 2 * 2])
    return np.concatenate(kept).reshape(-1, 2) if kept else np.zeros((0, 2), dtype=np.int64)
