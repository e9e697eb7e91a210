"""Quantile regression attack: confidence above that of non-members with like words
(Bertran et al. 2023).

A regression on records that the model never saw predicts, from a record's words, the
quantile of confidence that a share of 0.1 of non-members exceeds. Records above it are
members.
"""

import numpy as np
import scipy.sparse as sparse

from trainables.attacks._knowledge import Knowledge
from trainables.attacks._signals import Floats, Signals
from trainables.dp.seeding import stream_seed
from trainables.errors import InvalidInput

NEEDS = frozenset({"texts"})

FALSE_POSITIVE_RATE = 0.1
_COMPONENTS = 16
FEWEST = 50  # population records below which no quantile can be fitted
_MOST = (
    2_000  # the regression is a linear program; more rows cost time and little error
)


def scores(target: Signals, knowledge: Knowledge, *, seed: int = 0) -> Floats:
    """psi minus its predicted (1 - `FALSE_POSITIVE_RATE`) quantile for a non-member,
    [n].

    Fits on the target's population rows only: records that it never trains on and that
    are not scored.

    Raises: InvalidInput with fewer than 50 population rows.
    """
    from sklearn.linear_model import (
        QuantileRegressor,
    )  # a second, only where it is used

    texts = knowledge.texts
    assert texts is not None  # see NEEDS
    pool = np.flatnonzero(target.population)
    if len(pool) < FEWEST:
        raise InvalidInput(
            f"expected at least {FEWEST} non-members outside the attacked records for"
            f" the attack quantile, got {len(pool)}"
        )
    described = _describe(texts, seed=seed)
    model = QuantileRegressor(
        quantile=1 - FALSE_POSITIVE_RATE, alpha=1e-3, solver="highs"
    )
    fitted = pool[:: max(1, -(-len(pool) // _MOST))]
    model.fit(described[fitted], target.psi[fitted])
    return np.asarray(target.psi - model.predict(described))


def _describe(texts: sparse.csr_matrix, *, seed: int) -> Floats:
    """[n, 17]: main directions of the words with unit variance, and the last column
    (length).
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import StandardScaler

    words, size = texts[:, :-1], texts[:, [-1]].toarray()
    width = min(_COMPONENTS, words.shape[1] - 1, words.shape[0] - 1)
    seed = stream_seed(seed, "quantile", "svd") % 2**32
    main = TruncatedSVD(width, random_state=seed, n_iter=2).fit_transform(words)
    return np.asarray(StandardScaler().fit_transform(np.column_stack([main, size])))
