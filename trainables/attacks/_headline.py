"""The figures of attacks by name, and the headline figure: that of the strongest
attack.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

from trainables import catalogue
from trainables.config.sections import SplitMode
from trainables.figures import ATTACKS, EPSILON, EPSILON_REPLACE_ONE, LEAKAGE, Figure
from trainables.metrics import membership
from trainables.metrics.membership import around, log_odds

_CONFIDENCE = 0.95
_TAIL = (1 - _CONFIDENCE) / 2
_Z = NormalDist().inv_cdf(1 - _TAIL)


def auc_of(attack: str) -> str:
    """The name of an attack's AUC.

    >>> auc_of("shadow")
    'mia_shadow_auc'
    """
    return f"{ATTACKS}{attack}_auc"


def attacks_on_models() -> list[str]:
    """Names of the registered attacks, sorted, without the controls: a control sees no
    model, so its AUC measures how the split differs from chance and is no leakage. Only
    these names enter the headline figure.
    """
    names = catalogue.names("attacks")
    return [name for name in names if catalogue.kind_of("attacks", name) != "control"]


def audited(split: SplitMode) -> str:
    """The name of the epsilon that a certified bound is about: swapped pairs test that
    of replacing a record, random membership of single records that of adding or
    removing one.
    """
    return EPSILON_REPLACE_ONE if split == "paired" else EPSILON


def figures() -> tuple[Figure, ...]:
    """The figures of all attacks."""
    return (
        Figure(
            name=LEAKAGE,
            label="AUC of the strongest attack",
            better="lower",
            task="nlu",
            written="rate",
            objective=True,
            is_listed=True,
            has_bounds=True,
        ),
        Figure(
            name="leakage_inverted",
            label="whether the strongest attack is inverted: members score lower",
            task="nlu",
        ),
        Figure(
            name="leakage_num_attacks",
            label="number of attacks",
            task="nlu",
            written="count",
        ),
        *(
            replace(
                figure,
                name=f"{ATTACKS}{attack}_{figure.name}",
                label=f"{figure.label} of the attack {attack}",
                task="nlu",
            )
            for attack in catalogue.names("attacks")
            for figure in membership.OF_SCORES
        ),
        Figure(
            name="mia_num_references", label="number of reference trials of the attacks"
        ),
        *(
            Figure(
                name=f"mia_one_run_num_{name}",
                label=f"{what} of the one-run audit",
                written="count",
            )
            for name, what in (
                ("units", "coins"),
                ("guesses", "guesses"),
                ("correct", "correct guesses"),
            )
        ),
        Figure(
            name="epsilon_lower_bound",
            label="certified lower bound of epsilon",
            written="lower_bound",
        ),
        Figure(name="epsilon_lower_bound_delta", label="delta of the certified bound"),
        Figure(
            name="epsilon_lower_bound_p",
            label="error probability of the certified bound",
        ),
        *(
            Figure(
                name=f"epsilon_estimate_{name}",
                label=f"estimated epsilon ({name}), no certificate",
            )
            for name in ("fdp", "gdp", "cp")
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Strongest:
    """The attack with the largest AUC, oriented so that a higher AUC means more
    leakage.

    `low` and `high` hold for all `num_attacks` attacks together with probability 95 %,
    so they hold for the one that was chosen. `inverted`: its AUC is below 0.5 by more
    than chance.
    """

    attack: str
    value: float
    low: float
    high: float
    inverted: bool
    num_attacks: int

    def figures(self) -> dict[str, float]:
        """By the names of the registry."""
        return {
            LEAKAGE: self.value,
            f"{LEAKAGE}_low": self.low,
            f"{LEAKAGE}_high": self.high,
            "leakage_inverted": float(self.inverted),
            "leakage_num_attacks": float(self.num_attacks),
        }


def oriented_attacks(metrics: Mapping[str, float | None]) -> list[Strongest]:
    """Every attack of a trial except controls, oriented so that a higher AUC means more
    leakage.

    An AUC counts as inverted where its interval over all attacks is below 0.5, because
    an adversary could invert the attack. One that is below 0.5 by chance is left as it
    is.
    """
    if not any(name.startswith(ATTACKS) for name in metrics):
        return []
    measured = {
        name: (
            value,
            metrics.get(f"{auc_of(name)}_low"),
            metrics.get(f"{auc_of(name)}_high"),
        )
        for name in attacks_on_models()
        if (value := metrics.get(auc_of(name))) is not None
    }
    found = []
    for name, (value, low, high) in measured.items():
        low, high = widen(value, low, high, num_tests=len(measured))
        inverted = high < 0.5
        if inverted:
            value, low, high = 1 - value, 1 - high, 1 - low
        found.append(
            Strongest(
                attack=name,
                value=value,
                low=low,
                high=high,
                inverted=inverted,
                num_attacks=len(measured),
            )
        )
    return found


def strongest(metrics: Mapping[str, float | None]) -> Strongest | None:
    """The strongest attack among the figures `metrics` of one trial, by its oriented
    AUC, ties by name; None without an attack on the model. Controls, which see no
    model, do not count. Its interval holds for all attacks together, because the
    largest of several is chosen.

    >>> found = strongest({"mia_shadow_auc": 0.132, "mia_shadow_auc_low": 0.1,
    ...     "mia_shadow_auc_high": 0.164, "mia_loss_threshold_auc": 0.6})
    >>> found.attack, found.value, found.inverted
    ('shadow', 0.868, True)
    """
    return max(
        oriented_attacks(metrics), key=lambda one: (one.value, one.attack), default=None
    )


def widen(
    value: float, low: float | None, high: float | None, *, num_tests: int
) -> tuple[float, float]:
    """The 95 % interval of an AUC widened for `num_tests` simultaneous tests
    (Bonferroni).

    As in `membership.auc`: DeLong's interval, normal in the log odds, and at an AUC of
    0 or 1 the exact bound. (0, 1) without an interval.

    >>> [round(bound, 4) for bound in widen(0.6, 0.5398, 0.6573, num_tests=4)]
    [0.523, 0.6724]
    """
    if low is None or high is None:
        return 0.0, 1.0
    tail = _TAIL / num_tests
    if value in (0.0, 1.0):
        edge = low if value else 1 - high
        # The exact bound is tail ** (1 / n): its logarithm grows with that of the tail.
        edge = edge ** (math.log(tail) / math.log(_TAIL)) if edge > 0 else 0.0
        return (edge, 1.0) if value else (0.0, 1 - edge)
    centre, odds = (
        log_odds(value),
        [log_odds(end) for end in (low, high) if 0 < end < 1],
    )
    margin = max((abs(end - centre) for end in odds), default=math.inf)
    return around(value, margin * NormalDist().inv_cdf(1 - tail) / _Z)
