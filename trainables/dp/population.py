"""The sampled population: records, or the groups of records that are the unit of
privacy.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.dp.seeding import GOLDEN, mix, stream_seed
from trainables.errors import InvalidInput

Ids = NDArray[np.int64]


class Population:
    """The members that are sampled, and the records of each.

    `ids` int64[n] are the training records. With `groups` int[n] (the group of each) a
    member is a group with at most `max_records_per_group` of its records. A public seed
    and the records' `text_keys` int64[n] (default: their ids) determine which, so no
    group's choice depends on another group or on the order of records.
    """

    def __init__(
        self,
        ids: Ids,
        *,
        groups: NDArray[Any] | None = None,
        text_keys: Ids | None = None,
        max_records_per_group: int = 1,
        seed: int = 0,
    ) -> None:
        ids = np.asarray(ids, dtype=np.int64)
        repeats = len(ids) - len(np.unique(ids))
        if repeats:
            raise InvalidInput(
                f"expected each training record once, got {repeats} repeats"
            )
        self.records, self.sizes = ids, np.ones(len(ids), dtype=np.int64)
        if groups is not None:
            if len(groups) != len(ids):
                raise InvalidInput(f"expected {len(ids)} groups, got {len(groups)}")
            keys = ids if text_keys is None else text_keys
            with np.errstate(over="ignore"):
                numbered = keys.astype(np.uint64) * GOLDEN
                priority = mix(numbered + np.uint64(stream_seed(seed, "contributions")))
            order = np.lexsort((priority, groups))
            _, first, counts = np.unique(
                groups[order], return_index=True, return_counts=True
            )
            place = np.arange(len(ids)) - np.repeat(first, counts)
            self.records = ids[order[place < max_records_per_group]]
            self.sizes = np.minimum(counts, max_records_per_group).astype(np.int64)
        self.starts: Ids = np.cumsum(self.sizes) - self.sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def expand(self, members: Ids) -> tuple[Ids, Ids]:
        """The records of `members`, and for each record the place of its member in
        `members`.
        """
        sizes = self.sizes[members]
        place = np.repeat(np.arange(len(members)), sizes)
        within = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.records[self.starts[members][place] + within], place
