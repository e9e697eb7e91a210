"""The n of a mechanism, declared, known or counted, and the check of a declared one."""

import numpy as np

from trainables.config.sections import DataConfig
from trainables.data.configs import path_of
from trainables.data.corpus import Corpus
from trainables.data.schema import shipped_size
from trainables.data.split import make_split, training_size
from trainables.errors import InvalidData

_COUNTED_BY = "`sweep data describe` counts them, for the curator alone"
_FAR = 2  # times the training part, or a half of it


def declared_pool_size(config: DataConfig) -> int | None:
    """Records of the whole pool, known without opening the data; None where it is not.

    A generated corpus has exactly the configured number. `max_records` limits how many
    are used.
    """
    size = config.pool_size()
    return None if size is None else min(size, config.max_records or size)


def declared_training_size(config: DataConfig) -> int | None:
    """The number n of training records that is known without opening the data: the
    declared `data.num_records`, or that of a public corpus at its usual place by its
    size and the split. None where the records would have to be counted, which for
    private data is a release.
    """
    if config.num_records is not None:
        return config.num_records
    if config.split == "official":
        if path_of(config) is not None or config.max_records is not None:
            return None
        return shipped_size(config.name, config.place, of="train_size")
    pool = declared_pool_size(config)
    return None if pool is None else training_size(pool, config)


def num_training_records(config: DataConfig, corpus: Corpus) -> int:
    """The number n of training records of a trial, as declared or else by the `corpus`'
    size, whose use of private records `Corpus.undeclared` states. With random
    membership it is the expected number and not this trial's own, which is secret.
    """
    declared = declared_training_size(config)
    if declared is not None:
        return declared
    if config.split == "official":
        return len(make_split(config, corpus=corpus, mask_seed=0).train)
    return training_size(corpus.num_records, config)


def rounded_size(number: int) -> int:
    """A count rounded to two significant digits, to be declared instead of the exact
    one, which is a release of private records. One of a single digit stays as it is.

    >>> rounded_size(1_237), rounded_size(96), rounded_size(7)
    (1200, 96, 7)
    """
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return round(number / unit) * unit


def require_declared_size(
    config: DataConfig, corpus: Corpus, *, by_group: bool
) -> None:
    """Refuse a declared number that differs from the training part's by more than a
    factor of 2, because noise, delta and the divisor of the sum would be those of
    another corpus.

    Raises: InvalidData without that number, because plans and reports keep the message.
    """
    declared = config.num_records
    if declared is None:
        return
    if by_group and corpus.groups is None:
        return  # refused where the groups are read
    train = make_split(config, corpus=corpus, mask_seed=0).train
    train = train[~corpus.outside[train]]
    groups = corpus.groups[train] if by_group and corpus.groups is not None else None
    require_near(
        declared, len(train) if groups is None else len(np.unique(groups)), by_group
    )


def require_known_size(config: DataConfig) -> None:
    """As `require_declared_size`, of a corpus whose size is known without opening it.

    Raises: InvalidData where the declared number differs.
    """
    known = declared_training_size(config.model_copy(update={"num_records": None}))
    if config.num_records is not None and known is not None:
        require_near(config.num_records, known, by_group=False, is_public=True)


def require_near(
    declared: int, found: int, by_group: bool, *, is_public: bool = False
) -> None:
    """Refuse a `declared` number of records (of groups with `by_group`) that is above
    twice or below half of those `found`: noise, delta and the divisor of a sum would be
    those of another corpus. Only for public data does the message have a number to
    declare.

    Raises: InvalidData.
    """
    if found <= _FAR * declared and declared <= _FAR * found:
        return
    what = "groups" if by_group else "records"
    advice = (
        f"declare about {max(1, rounded_size(found))}" if is_public else _COUNTED_BY
    )
    raise InvalidData(
        f"expected data.num_records within a factor of {_FAR} of the {what} that train,"
        f" got {declared}: noise, delta and the divisor would be those of another"
        f" corpus; {advice}"
    )
