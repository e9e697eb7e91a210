"""Bag-of-words features of records, which need no model. Numbers, not text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy import sparse


def bag_of_words(
    token_ids: NDArray[np.integer], lengths: NDArray[np.integer], *, num_types: int
) -> sparse.csr_matrix:
    """[n, num_types + 1]: whether each token type occurs, then log(1 + length).

    `token_ids` are the tokens of n records one after another, `lengths` [n] how many each has.
    """
    from scipy import sparse  # imported by every plan of a space with attacks otherwise

    rows = np.repeat(np.arange(len(lengths)), lengths)
    counts = sparse.coo_matrix(
        (np.ones(len(token_ids)), (rows, token_ids)), shape=(len(lengths), num_types)
    ).tocsr()
    counts.data[:] = 1.0
    size = sparse.csr_matrix(np.log1p(np.asarray(lengths, dtype=np.float64))[:, None])
    return sparse.csr_matrix(sparse.hstack([counts, size]))
