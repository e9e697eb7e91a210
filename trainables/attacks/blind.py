"""The control that never sees the model: a bag-of-words classifier of members (Das et al. 2024).

If it finds members, the split gives them away (drift, duplicates), and no other attack's figure
says anything about the model. Its interval must contain 0.5.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from trainables.attacks._knowledge import Knowledge, require
from trainables.attacks._signals import Floats, Signals
from trainables.errors import InvalidInput
from trainables.seeding import generator

KIND = "control"  # it sees no model: what it finds is no leakage of one
NEEDS = frozenset({"texts"})
_FOLDS = 5


def scores(target: Signals, knowledge: Knowledge, *, seed: int = 0) -> Floats:
    """Rank in (0, 1] of each record among its fold, judged by what was learnt on the others, [n].

    Both records of a pair lie in one fold: learning that one is a member tells that the other is
    none. Population rows are judged too, and never learnt on.

    Raises: InvalidInput without texts, or with fewer than 5 members or non-members.
    """
    from sklearn.linear_model import LogisticRegression  # a second, only where it is used

    require("blind", NEEDS, knowledge)
    texts = knowledge.texts
    assert texts is not None  # required above
    if texts.shape[0] != len(target):
        raise InvalidInput(f"expected texts of {len(target)} records, got {texts.shape[0]}")
    folds = _folds(target, seed=seed)
    found = np.empty(len(target))
    for fold in range(_FOLDS):
        judged = folds == fold
        learnt = ~judged & target.judged
        model = LogisticRegression(C=1.0, solver="liblinear", tol=1e-3, random_state=0)
        model.fit(texts[learnt], target.member[learnt])
        # Folds differ in intercept, which is no property of a record.
        found[judged] = rankdata(model.decision_function(texts[judged])) / judged.sum()
    return found


def _folds(target: Signals, *, seed: int) -> np.ndarray:
    """A fold 0..4 for each record: stratified by membership, and whole pairs."""
    rng = generator(seed, "blind", "folds")
    folds = np.zeros(len(target), dtype=np.int64)
    paired = (target.pairs >= 0) & target.judged
    if paired.any():
        names, place = np.unique(target.pairs[paired], return_inverse=True)
        folds[paired] = (rng.permutation(len(names)) % _FOLDS)[place]
    for side in (target.member & ~paired, ~target.member & target.judged & ~paired):
        folds[side] = rng.permutation(int(side.sum())) % _FOLDS
    folds[target.population] = rng.permutation(int(target.population.sum())) % _FOLDS
    judged = target.judged
    few = min(int((judged & target.member).sum()), int((judged & ~target.member).sum()))
    if few < _FOLDS:
        raise InvalidInput(
            f"expected at least {_FOLDS} members and non-members for the attack blind, got {few}"
        )
    return folds
