"""The paper's attack: a classifier of members, trained on a shadow model and applied to
the target.

Dupuy et al. 2021, section 4.2, after Shokri et al. 2017 and Salem et al. 2019 (one
shadow, data of another kind). The shadow has the target's architecture and is trained
without noise on half of a public corpus; features are the sorted scores of the intent
head and of the tagger. Choices that the paper leaves open: one shadow; three sorted
intent probabilities; CRF posteriors reduced to a fixed width (`FEATURES`); logistic
regression.

The caller trains the shadow, which needs a training loop; this attack reads signals
only.
"""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from trainables.attacks._knowledge import Knowledge
from trainables.attacks._signals import Bools, Floats, Signals
from trainables.dp.seeding import generator
from trainables.errors import InvalidInput

NEEDS = frozenset({"shadow"})

_EPSILON = 1e-6  # bounds the logit of a probability that is 0 or 1


def transform(features: Floats) -> Floats:
    """Logit of the probabilities, which bunch at 0 and 1; the last column is a log
    already.
    """
    bounded = np.clip(features[:, :-1], _EPSILON, 1 - _EPSILON)
    return np.column_stack([np.log(bounded) - np.log1p(-bounded), features[:, -1]])


def fit(
    features: Floats, member: Bools, *, seed: int = 0
) -> Callable[[Floats], Floats]:
    """Fit on a model whose members are known: features [n, 8], mask [n]. Returns the
    function from features [n, 8] to scores [n]; higher means member.

    As many members as non-members are used.

    Raises: InvalidInput where either class has fewer than 5 records.
    """
    # A second, only where it learns.
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    few = int(min(member.sum(), (~member).sum()))
    if few < 5:
        raise InvalidInput(
            f"expected at least 5 shadow members and 5 non-members, got {few} of the"
            f" rarer"
        )
    rng = generator(seed, "shadow", "balance")
    rows = np.sort(
        np.concatenate(
            [rng.permutation(np.flatnonzero(side))[:few] for side in (member, ~member)]
        )
    )
    model = make_pipeline(
        FunctionTransformer(transform),
        StandardScaler(),
        LogisticRegression(max_iter=1_000),
    ).fit(features[rows], member[rows])
    read: Callable[[Floats], Floats] = model.decision_function
    return read


def scores(target: Signals, knowledge: Knowledge, *, seed: int = 0) -> Floats:
    """Log-odds of membership for every record of the target, [n].

    Raises: InvalidInput where the shadow's corpus is the target's own.
    """
    shadow = knowledge.shadow
    assert shadow is not None  # see NEEDS
    if target.corpus and shadow.corpus == target.corpus:
        raise InvalidInput(
            "expected the shadow on another corpus than the target's, got the same"
            f" fingerprint {target.corpus[:12]}"
        )
    rows = shadow.is_evaluated
    return fit(shadow.features[rows], shadow.member[rows], seed=seed)(target.features)


def cache_key(*, architecture: str, corpus: str, split_seed: int, epochs: int) -> str:
    """16 hex digits: a sweep trains one shadow for each, not one for each trial.

    `architecture` is a canonical description of the model config, `corpus` the
    fingerprint of the shadow corpus.
    """
    text = "\n".join((architecture, corpus, str(split_seed), str(epochs)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def default_corpus(target: str, available: Sequence[str]) -> str:
    """The shadow corpus for a target: the largest public one that is not the target.

    Raises: InvalidInput naming what is needed where none is there.
    """
    public = ("nlu_eval", "snips", "atis", "communication", "health", "video")
    for name in public:
        if name != target and name in available:
            return name
    raise InvalidInput(
        "expected a public corpus beside the target for evaluation.shadow_corpus, got"
        f" none of {', '.join(public)}"
    )


def disjoint(
    shadow_texts: NDArray[np.uint64], target_texts: NDArray[np.uint64]
) -> Bools:
    """Which shadow records to keep, [n]: those whose text is not in the target corpus.

    Both sides are hashes of normalised texts. A shadow trained on records of the target
    would learn their labels instead of the traits of members.
    """
    return ~np.isin(shadow_texts, target_texts)
