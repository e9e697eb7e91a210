"""A control without access to the model: a bag-of-words classifier of members (Das et
al. 2024).

If it finds members, the split reveals them (drift, duplicates), and other attacks'
figures do not measure the model. Its interval must contain 0.5.
"""

import numpy as np
from scipy.stats import rankdata

from trainables.attacks._knowledge import Knowledge
from trainables.attacks._signals import Floats, Signals
from trainables.dp.seeding import generator
from trainables.errors import InvalidInput

NEEDS = frozenset({"texts"})
_FOLDS = 5


def scores(target: Signals, knowledge: Knowledge, *, seed: int = 0) -> Floats:
    """Rank in (0, 1] of each record within its fold, by a classifier of the other
    folds, [n].

    Both records of a pair are in one fold, because the membership of one reveals that
    of the other. Population rows are scored and never trained on.

    Raises: InvalidInput with fewer than 5 members or non-members.
    """
    from sklearn.linear_model import (
        LogisticRegression,
    )  # a second, only where it is used

    texts = knowledge.texts
    assert texts is not None  # see NEEDS
    folds = _folds(target, seed=seed)
    found = np.empty(len(target))
    for fold in range(_FOLDS):
        tested = folds == fold
        fitted = ~tested & target.is_evaluated
        model = LogisticRegression(C=1.0, solver="liblinear", tol=1e-3, random_state=0)
        model.fit(texts[fitted], target.member[fitted])
        # Folds differ in intercept, which is no property of a record.
        found[tested] = rankdata(model.decision_function(texts[tested])) / tested.sum()
    return found


def _folds(target: Signals, *, seed: int) -> np.ndarray:
    """A fold 0..4 for each record: stratified by membership, and whole pairs."""
    rng = generator(seed, "blind", "folds")
    folds = np.zeros(len(target), dtype=np.int64)
    paired = (target.pairs >= 0) & target.is_evaluated
    if paired.any():
        names, place = np.unique(target.pairs[paired], return_inverse=True)
        folds[paired] = (rng.permutation(len(names)) % _FOLDS)[place]
    for side in (
        target.member & ~paired,
        ~target.member & target.is_evaluated & ~paired,
    ):
        folds[side] = rng.permutation(int(side.sum())) % _FOLDS
    folds[target.population] = rng.permutation(int(target.population.sum())) % _FOLDS
    evaluated = target.is_evaluated
    few = min(
        int((evaluated & target.member).sum()), int((evaluated & ~target.member).sum())
    )
    if few < _FOLDS:
        raise InvalidInput(
            f"expected at least {_FOLDS} members and non-members for the attack blind,"
            f" got {few}"
        )
    return folds
