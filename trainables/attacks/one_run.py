"""A certified lower bound on epsilon from one training run (Steinke, Nasr & Jagielski
2023).

Every unit has an independent, fair membership: a record that was in or out, or, in the
`paired` split, a pair of which one was in. The attack guesses the memberships of the r
units with the most extreme scores; (epsilon, delta)-DP bounds the number of correct
guesses. Random membership of single records bounds the add-or-remove epsilon, swapped
pairs the replace-one epsilon.

Valid for any score that does not use the target's own memberships, and for a number of
guesses that was fixed beforehand.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import betainc
from scipy.stats import binom

from trainables.attacks import _estimates, bavaria, rmia
from trainables.attacks._knowledge import Knowledge
from trainables.attacks._signals import Bools, Floats, Integers, Signals
from trainables.config.sections import SplitMode
from trainables.dp.mechanism import Sampling
from trainables.errors import InvalidInput

_LARGEST = 64.0  # no number of units that fits in memory certifies more


def p_value(
    num_units: int, num_guesses: int, num_correct: int, *, epsilon: float, delta: float
) -> float:
    """Probability bound of so many right guesses under (epsilon, delta)-DP, in [0, 1].

    min(1, beta + 2 m delta alpha) with X ~ Bin(r, q), q = e^eps / (1 + e^eps), beta =
    P[X >= v], alpha = max over 1 <= i <= v of P[v > X >= v - i] / i (Theorem 5.2).
    """
    q = 1 / (1 + math.exp(-epsilon))
    if num_correct == 0:
        return 1.0
    tail = float(betainc(num_correct, num_guesses - num_correct + 1, q))  # P[X >= v]
    if delta == 0:
        return tail
    below = np.cumsum(binom.pmf(np.arange(num_correct - 1, -1, -1), num_guesses, q))
    alpha = float((below / np.arange(1, num_correct + 1)).max())
    return min(1.0, tail + 2 * num_units * delta * alpha)


def epsilon_lower_bound(
    num_units: int, num_guesses: int, num_correct: int, *, delta: float, p: float = 0.05
) -> float:
    """The largest epsilon that the guesses reject at level `p`; 0 where they reject
    none.

    `num_units` m, `num_guesses` r, `num_correct` v.

    >>> round(epsilon_lower_bound(1_000, 100, 95, delta=1e-5), 4)
    2.1652

    Raises: InvalidInput unless 0 <= v <= r <= m, r >= 1, 0 <= delta < 1 and 0 < p < 1.
    """
    if not 0 <= num_correct <= num_guesses <= num_units or num_guesses < 1:
        raise InvalidInput(
            "expected 0 <= correct <= guesses <= units and at least one guess, got"
            f" correct={num_correct}, guesses={num_guesses}, units={num_units}"
        )
    _estimates.require_delta(delta)
    if not 0 < p < 1:
        raise InvalidInput(f"expected 0 < p < 1, got p={p}")
    return _estimates.largest_rejected(
        lambda epsilon: (
            p_value(num_units, num_guesses, num_correct, epsilon=epsilon, delta=delta)
            < p
        ),
        upper=_LARGEST,
    )


NEEDS = frozenset({"coins"})

ERROR = 0.05  # probability that any bound of a sweep is too large
GUESSED_SHARE = 0.05
MODELS_FOR_RATIO = 16
_COUNTS = tuple(f"mia_one_run_num_{name}" for name in ("units", "guesses", "correct"))


def scores(target: Signals, knowledge: Knowledge, *, seed: int = 0) -> Floats:
    """The record scores whose extremes are guessed, [n]: the target's own
    confidence.
    """
    return target.psi


def all_scores(trials: Sequence[Signals]) -> list[Floats]:
    """Scores of every trial against all the others, in time linear in trials times
    records: with 16 references or more the shrunk likelihood ratio, with fewer the
    relative likelihood. The rule is fixed because choosing the best score would void
    the bound.

    Raises: InvalidInput where there are fewer than two, or their records differ.
    """
    if len(trials) > MODELS_FOR_RATIO:
        return bavaria.all_scores(trials)
    return rmia.all_scores(trials)


def audit(
    record_scores: Floats, signals: Signals, *, delta: float, num_trials: int = 1
) -> dict[str, float]:
    """The figures of a guess of the memberships of 5 % of the units of `signals`, by
    `record_scores` [n].

    `ERROR` is divided by `num_trials`: all bounds of a sweep hold together with
    probability 1 less it. The split has random membership (see `comparable`).
    """
    evidence, is_first = unit_scores(record_scores, signals)
    order = np.argsort(-np.abs(evidence), kind="stable")
    right = np.cumsum(((evidence > 0) == is_first)[order])
    num = math.ceil(GUESSED_SHARE * len(order) - 1e-9)
    counts = len(order), num, int(right[num - 1])
    return {
        **_bounds(counts, delta=delta, p=ERROR / num_trials),
        "epsilon_lower_bound_delta": delta,
        **dict(zip(_COUNTS, map(float, counts), strict=True)),
    }


def corrected(
    metrics: Mapping[str, float | None], *, num_trials: int
) -> dict[str, float]:
    """The bound and estimate that an audit's figures give as one of `num_trials`
    audits; empty for figures without one.
    """
    counts = [
        int(count) for name in _COUNTS if (count := metrics.get(name)) is not None
    ]
    delta = metrics.get("epsilon_lower_bound_delta")
    if delta is None or len(counts) < len(_COUNTS):
        return {}
    return _bounds(counts, delta=delta, p=ERROR / num_trials)


def _bounds(counts: Sequence[int], *, delta: float, p: float) -> dict[str, float]:
    """The bound of epsilon at `delta`, which holds with probability 1 - `p`, and an
    estimate that is tighter and certifies nothing.
    """
    return {
        "epsilon_lower_bound": epsilon_lower_bound(*counts, delta=delta, p=p),
        "epsilon_lower_bound_p": p,
        "epsilon_estimate_fdp": _estimates.fdp(*counts, delta=delta, p=p),
    }


def unit_scores(record_scores: Floats, signals: Signals) -> tuple[Floats, Bools]:
    """Evidence and membership of every unit, [m]: evidence > 0 guesses True.

    A pair's evidence is the score of its first record (the lower id) minus that of its
    second, and its membership whether the first was in. A single record's evidence is
    its rank above the middle, so that both ends are guessed alike. Neither uses a
    membership.
    """
    rows = np.flatnonzero(signals.is_evaluated)
    if signals.mode == "paired":
        first, second = pair_rows(signals.pairs[rows])
        first, second = rows[first], rows[second]
        if (signals.member[first] == signals.member[second]).any():
            raise InvalidInput(
                "expected exactly one member in each pair, got a pair without"
            )
        return record_scores[first] - record_scores[second], signals.member[first]
    if not len(rows):
        raise InvalidInput("expected records to audit, got none")
    ranks = np.empty(len(rows))
    ranks[np.argsort(record_scores[rows], kind="stable")] = np.arange(len(rows))
    ranks -= (len(rows) - 1) / 2
    return ranks, signals.member[rows]


def pair_rows(pairs: Integers) -> tuple[Integers, Integers]:
    """Rows of the first and second record of each complete pair; rows without a pair
    are left out.

    Raises: InvalidInput for a pair of more than two, or where no pair is complete.
    """
    rows = np.flatnonzero(pairs >= 0)
    order = rows[np.argsort(pairs[rows], kind="stable")]
    _, counts = np.unique(pairs[order], return_counts=True)
    if (counts > 2).any():
        raise InvalidInput(
            f"expected pairs of two records, got one of {int(counts.max())}"
        )
    starts = np.cumsum(counts) - counts
    starts = starts[counts == 2]
    if not len(starts):
        raise InvalidInput("expected pairs to audit in split paired, got none")
    return order[starts], order[starts + 1]


def comparable(mode: SplitMode, sampling: Sampling, *, unit: str = "record") -> bool:
    """Whether the split has random membership and the mechanism an epsilon of the
    relation that they bound.

    Random membership of single records bounds the add-or-remove epsilon, which
    shuffling does not have. With unit group a membership changes what is in a group, or
    in two, and neither adds nor replaces one.
    """
    if unit == "group":
        return False
    return mode == "paired" or (mode == "bernoulli" and sampling != "shuffle")


def violates(epsilon_lower_bound: float, epsilon_claimed: float) -> bool:
    """Whether a certified bound exceeds the claim, which is then wrong up to the
    audit's p.

    Both must have the same delta and the same neighbouring relation (see the module).

    >>> violates(1.2, 1.0), violates(1.0, 1.0), violates(9.0, math.inf)
    (True, False, False)
    """
    return epsilon_lower_bound > epsilon_claimed
