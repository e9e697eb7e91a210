"""Which records a trial trains, validates and tests on. Pure; no torch.

`paper` pools all files and cuts 45:5:50 by `split_seed` (Dupuy et al. 2021, 4.1);
`official` keeps the parts of the corpus (one without a validation part gives 5 % of its
training part). `hash` gives a record the part that a hash of its group, or else of its
text, has: 70:10:20 on average. No other record is read, so one more or less changes one
part alone, which a guarantee for every record needs (`privacy.covers: all`).
`bernoulli` and `paired` first reserve 5 % validation and 5 % test,
common to all trials of a `split_seed` so that their scores compare; the other 90 % are
the audit pool, and a trial trains on about half of it (45 % of all, as in the paper),
by independent random membership:

* `bernoulli`: every record is a member with probability 1/2, independently;
* `paired`: records are paired (equal intent, nearest length; by `split_seed`, equal for
  all trials) and an independent fair coin decides which of a pair is trained on, so
  that a guess at the memberships is an audit (Steinke et al. 2023; Mahloujifar et al. 2024
  for pairs).

Memberships are independent between records and trials, never balanced over trials,
because a balanced design would reveal a record's membership in one trial through those
of the others.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainables.config.sections import HASH_PERCENT, DataConfig
from trainables.config.trial import TrialConfig
from trainables.data.corpus import Corpus
from trainables.data.records import Part
from trainables.data.storage import PARTS
from trainables.dp.seeding import GOLDEN, generator, mix, stream_seed
from trainables.errors import InvalidInput

_TRAIN_PERCENT, _RESERVED_PERCENT = 45, 5

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """Record ids, ascending and disjoint.

    `audit_pool` [M] and `mask` [M] exist in the modes with random membership: the
    records that may be members, and whether this trial trains on them. `pairs` [P, 2]
    exists in mode `paired`.
    """

    train: Ids
    validation: Ids
    test: Ids
    audit_pool: Ids | None = None
    mask: NDArray[np.bool_] | None = None
    pairs: Ids | None = None

    @property
    def pair_numbers(self) -> Ids | None:
        """[M]: the row of `pairs` with each record of the audit pool; None without
        pairs.
        """
        if self.pairs is None or self.audit_pool is None:
            return None
        numbers = np.empty(self.pairs.size, dtype=np.int64)
        places = np.searchsorted(self.audit_pool, self.pairs)
        numbers[places] = np.arange(len(self.pairs))[:, None]
        return numbers


def split_of(config: TrialConfig, corpus: Corpus) -> Split:
    """The split that a trial trains, validates and tests on; membership that is random
    is drawn by the trial's seed and id.

    Raises: InvalidInput as `make_split`.
    """
    membership = stream_seed(config.training.seed, config.id)
    return make_split(config.data, corpus=corpus, mask_seed=membership)


def make_split(config: DataConfig, *, corpus: Corpus, mask_seed: int) -> Split:
    """The split of a `corpus` into training, validation and test ids by `config.split`
    and its seed, the same for every trial; with random membership (`bernoulli`,
    `paired`) `mask_seed` draws which records of the audit pool this trial trains on.

    Raises: InvalidInput where a part would be empty; not for `hash`, since whether one
    is depends on the records.
    """
    if config.split == "hash":
        return _by_hash(corpus, config.split_seed)
    if config.split == "official":
        split = _official(corpus, config.split_seed)
    elif config.split == "paper":
        split = _paper(corpus.num_records, config.split_seed)
    else:
        split = _with_coins(config, corpus, mask_seed)
    parts: dict[Part, Ids] = {
        "train": split.train,
        "validation": split.validation,
        "test": split.test,
    }
    for name, ids in parts.items():
        if len(ids) == 0:
            raise InvalidInput(
                f"expected records in the {name} part, got none with"
                f" data.split={config.split}"
            )
    return split


def training_size(pool_size: int, config: DataConfig) -> int:
    """Training records of a pool, known from its size alone: the declared n of an
    accountant.

    In mode `bernoulli` the expected number, half the audit pool, because the realised
    one is private. Raises: InvalidInput for the official split, whose parts have other
    sizes.
    """
    if config.split == "official":
        raise InvalidInput(
            "expected data.num_records with data.split=official, got only the size of"
            " the pool"
        )
    if config.split == "paper":
        return _percent(pool_size, _TRAIN_PERCENT)
    if config.split == "hash":
        return max(1, _percent(pool_size, HASH_PERCENT[0]))
    return (pool_size - 2 * _percent(pool_size, _RESERVED_PERCENT)) // 2


def _percent(n: int, percent: int) -> int:
    """n percent / 100 rounded half up, in whole numbers."""
    return (n * percent + 50) // 100


def _paper(n: int, seed: int) -> Split:
    order = generator(seed, "split").permutation(n)
    train = _percent(n, _TRAIN_PERCENT)
    validation = train + _percent(n, _RESERVED_PERCENT)
    parts = [np.sort(ids) for ids in np.split(order, [train, validation])]
    return Split(train=parts[0], validation=parts[1], test=parts[2])


def _by_hash(corpus: Corpus, seed: int) -> Split:
    if corpus.part_keys is None:
        raise AssertionError("a corpus of data.split=hash has keys of its parts")
    salt = np.uint64(stream_seed(seed, "parts by hash"))
    with np.errstate(over="ignore"):
        places = mix(np.asarray(corpus.part_keys) * GOLDEN + salt)
    # In 2^64 parts of 100: an exact comparison of whole numbers.
    ends = [(int(sum(HASH_PERCENT[:n])) << 64) // 100 for n in (1, 2)]
    is_train, is_test = places < ends[0], places >= ends[1]
    return Split(
        train=np.flatnonzero(is_train),
        validation=np.flatnonzero(~is_train & ~is_test),
        test=np.flatnonzero(is_test),
    )


def held_out_sizes(num_training: int) -> tuple[int, int]:
    """Units of the validation and test parts of a hash split as their shares declare
    them, from the declared number of those that train; at least 1 each.

    >>> held_out_sizes(7_000)
    (1000, 2000)
    """
    train, *others = HASH_PERCENT
    validation, test = (max(1, round(num_training * own / train)) for own in others)
    return validation, test


def _official(corpus: Corpus, seed: int) -> Split:
    part = np.asarray(corpus.part)
    ids = {name: np.flatnonzero(part == index) for index, name in enumerate(PARTS)}
    train, validation = ids["train"], ids["validation"]
    if len(validation) == 0:
        order = generator(seed, "official").permutation(train)
        held = _percent(len(train), _RESERVED_PERCENT)
        train, validation = np.sort(order[held:]), np.sort(order[:held])
    return Split(train=train, validation=validation, test=ids["test"])


def _with_coins(config: DataConfig, corpus: Corpus, mask_seed: int) -> Split:
    n = corpus.num_records
    reserved = _percent(n, _RESERVED_PERCENT)
    order = generator(config.split_seed, "common").permutation(n)
    validation, test, pool = (
        np.sort(ids) for ids in np.split(order, [reserved, 2 * reserved])
    )
    coins = generator(mask_seed, "mask")
    if config.split == "bernoulli":
        mask = coins.random(len(pool)) < 0.5
        return Split(pool[mask], validation, test, pool, mask)
    pairs = _pairs(corpus, pool, seed=config.split_seed)
    if len(pool) % 2:  # no trial trains on the record without a partner
        pool, left = np.sort(pairs.ravel()), np.setdiff1d(pool, pairs)
        test = np.sort(np.concatenate([test, left]))
    side = (coins.random(len(pairs)) < 0.5).astype(np.int64)
    train = np.sort(np.take_along_axis(pairs, side[:, None], axis=1).ravel())
    return Split(train, validation, test, pool, np.isin(pool, train), pairs)


def _pairs(corpus: Corpus, pool: Ids, *, seed: int) -> Ids:
    """[M // 2, 2]: records of equal intent next to each other in length, ties in random
    order.

    The leftover record of an intent with an odd number of records is paired by length
    alone.
    """
    intents = np.asarray(corpus.intents[pool], dtype=np.int64)
    lengths = corpus.offsets[pool + 1] - corpus.offsets[pool]
    chance = generator(seed, "pairs").permutation(len(pool))
    order = np.lexsort((chance, lengths, intents))
    sorted_intents = intents[order]
    starts = np.flatnonzero(np.r_[True, sorted_intents[1:] != sorted_intents[:-1]])
    counts = np.diff(np.r_[starts, len(order)])
    over = np.zeros(len(order), dtype=np.bool_)
    over[(starts + counts - 1)[counts % 2 == 1]] = True
    alone = order[over]
    alone = alone[np.argsort(lengths[alone], kind="stable")]
    alone = alone[: len(alone) // 2 * 2]
    found = np.concatenate([order[~over], alone]).reshape(-1, 2)
    return np.asarray(pool[found], dtype=np.int64)
