"""Audit of a synthetic data set alone, by the rare phrases of members that it repeats.

It needs no model and no canaries. A fair coin made each record a member (trained on) or
held it out. A phrase that occurs in one record only, and in the release, is evidence
that its record was a member; a record with such a phrase is a guess "member". (epsilon,
delta)-DP bounds the number of correct guesses (Steinke, Nasr & Jagielski 2023),
whatever the rule ("Phantoms and Disclosures", arXiv:2606.16952, uses rare features). A
bound of 0 proves nothing: an audit finds leaks and does not certify their absence.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, binomtest

from trainables.attacks.one_run import epsilon_lower_bound
from trainables.errors import InvalidInput

ORDERS = (1, 2, 3, 4)
# Sizes of the two sides that fair coins give less often than this are refused.
_IMPLAUSIBLE = 1e-6


@dataclass(frozen=True, kw_only=True)
class PhraseAudit:
    """Phrases of `order` words. A record is rare if it has one that no other record
    has.

    Of the `num_rare_*` records, `num_matched_*` have such a phrase in the release.
    `p_value` is that of as many member matches by fair coins: small where members are
    repeated more.
    """

    order: int
    num_rare_members: int
    num_rare_held_out: int
    num_matched_members: int
    num_matched_held_out: int
    p_value: float
    epsilon_lower_bound: float


@dataclass(frozen=True, kw_only=True)
class ReleaseAudit:
    """The result of auditing a release.

    `epsilon_lower_bound` at `delta` holds with probability 1 - `p`, over all orders
    together. `num_copies_*` count releases that equal a record of that side, word for
    word.
    """

    epsilon_lower_bound: float
    p_value: float
    delta: float
    p: float
    num_records: int
    num_released: int
    num_copies_members: int
    num_copies_held_out: int
    phrases: tuple[PhraseAudit, ...]


def require_rates(*, delta: float, p: float) -> None:
    """Raises: InvalidInput for a delta or an error probability out of range."""
    if not (0 <= delta < 1 and 0 < p < 1):
        raise InvalidInput(
            f"expected 0 <= delta < 1 and 0 < p < 1, got delta={delta}, p={p}"
        )


def audit_release(
    released: Sequence[str],
    members: Sequence[str],
    held_out: Sequence[str],
    *,
    delta: float,
    p: float = 0.05,
    orders: Sequence[int] = ORDERS,
    seed: int = 0,
) -> ReleaseAudit:
    """Audit the texts `released` by records that a fair coin put into `members` or
    `held_out`.

    All records must be included: equal sides by leaving some out would fix the number
    of coins on each side, and the theorem needs them independent. Words are compared in
    lower case. The bound is for adding or removing one record, as the coins are. `seed`
    orders equal matches.

    Raises: InvalidInput for sides of implausible sizes under fair coins, for no text,
    orders below 1, or delta or p out of range.
    """
    require_rates(delta=delta, p=p)
    if not orders or min(orders) < 1:
        raise InvalidInput(f"expected orders of phrases >= 1, got {list(orders)}")
    _refuse_unless_coins(len(members), len(held_out), num_released=len(released))
    rng = np.random.default_rng(seed)
    sides = [[_words(text) for text in side] for side in (members, held_out)]
    texts = [_words(text) for text in released]
    # By text, so that `seed` orders the same pool alike wherever the coins fell.
    pool = sorted(
        (words, side)
        for side, given in zip((True, False), sides, strict=True)
        for words in given
    )
    member = np.array([side for _, side in pool])
    level = p / len(orders)
    phrases = tuple(
        _audit_order(
            texts,
            [words for words, _ in pool],
            member,
            order=order,
            delta=delta,
            p=level,
            rng=rng,
        )
        for order in orders
    )
    copies = [{tuple(words) for words in side} for side in sides]
    return ReleaseAudit(
        epsilon_lower_bound=max(found.epsilon_lower_bound for found in phrases),
        p_value=min(1.0, len(orders) * min(found.p_value for found in phrases)),
        delta=delta,
        p=p,
        num_records=len(members) + len(held_out),
        num_released=len(texts),
        num_copies_members=sum(tuple(words) in copies[0] for words in texts),
        num_copies_held_out=sum(tuple(words) in copies[1] for words in texts),
        phrases=phrases,
    )


def _refuse_unless_coins(
    num_members: int, num_held_out: int, *, num_released: int
) -> None:
    """Raises: InvalidInput without a text, or for sizes that are implausible under fair
    coins.

    A refusal gives no bound, so it cannot raise the error rate above `p`.
    """
    num_records = num_members + num_held_out
    if not num_records or not num_released:
        raise InvalidInput(
            f"expected released, member and held-out texts, got {num_released},"
            f" {num_members} and {num_held_out}"
        )
    if binomtest(num_members, num_records, 0.5).pvalue < _IMPLAUSIBLE:
        raise InvalidInput(
            "expected members and held-out records that fair coins chose (data.split"
            f" bernoulli), got {num_members} and {num_held_out}: coins give such sides"
            f" less than once in {1 / _IMPLAUSIBLE:,.0f} times"
        )


def _audit_order(
    released: Sequence[list[str]],
    records: Sequence[list[str]],
    member: NDArray[np.bool_],
    *,
    order: int,
    delta: float,
    p: float,
    rng: np.random.Generator,
) -> PhraseAudit:
    there = {phrase for words in released for phrase in _phrases(words, order)}
    pool = [set(_phrases(words, order)) for words in records]
    owners = Counter(phrase for phrases in pool for phrase in phrases)
    rare = [{phrase for phrase in phrases if owners[phrase] == 1} for phrases in pool]
    strength = np.array([len(phrases & there) for phrases in rare])
    some = np.array([bool(phrases) for phrases in rare])
    matched = strength > 0
    guesses, right = int(matched.sum()), int((matched & member).sum())
    return PhraseAudit(
        order=order,
        num_rare_members=int((some & member).sum()),
        num_rare_held_out=int((some & ~member).sum()),
        num_matched_members=right,
        num_matched_held_out=guesses - right,
        p_value=float(binom.sf(right - 1, guesses, 0.5)) if guesses else 1.0,
        epsilon_lower_bound=_bound(strength, member, delta=delta, p=p, rng=rng),
    )


def _bound(
    strength: NDArray[np.int64],
    member: NDArray[np.bool_],
    *,
    delta: float,
    p: float,
    rng: np.random.Generator,
) -> float:
    """The certified epsilon of guessing "member" where `strength` > 0.

    The number of guesses depends on the release. With delta = 0 the theorem holds for
    any number of guesses; else it needs a cap fixed beforehand. Each cap of a fixed
    grid keeps the strongest guesses and has a share of p, so all of them hold together.
    """
    shuffled = rng.permutation(len(strength))  # ties, which no coin decides
    order = shuffled[np.argsort(-strength[shuffled], kind="stable")]
    right = np.cumsum(member[order] & (strength[order] > 0))
    num_units, guesses = len(strength), int((strength > 0).sum())
    if not guesses:
        return 0.0
    if delta == 0:
        return epsilon_lower_bound(
            num_units, guesses, int(right[guesses - 1]), delta=0.0, p=p
        )
    steps = range(2 * math.ceil(math.log2(num_units)) + 1)
    caps = sorted({min(num_units, round(2 ** (step / 2))) for step in steps})
    return max(
        epsilon_lower_bound(
            num_units, cap, int(right[cap - 1]), delta=delta, p=p / len(caps)
        )
        for cap in caps
    )


def _words(text: str) -> list[str]:
    return text.lower().split()


def _phrases(words: Sequence[str], order: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(order)), strict=False)
