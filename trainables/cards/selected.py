"""The privacy card of a private selection's best trial, with the selection's epsilon
instead of the trial's.
"""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from trainables.cards.card import PrivacyCard, Selection
from trainables.cards.sentences import neighbours
from trainables.dp.accounting.privacy_semantics import ClaimMeaning
from trainables.dp.accounting.rounding import format_delta, format_epsilon
from trainables.figures import EPSILON

_CHOICE = "the choice of this trial among others"


def of_selected(card: PrivacyCard, price: Mapping[str, Any]) -> PrivacyCard:
    """The card of the only released trial of a selection, from its card as one trial of
    many.

    `price` has `epsilon_selected`, `epsilon_composed` and `delta`, `law` and `mean` of
    the number of trials, and what `epsilon_selected` allows an attacker (the fields of
    a `ClaimMeaning`).
    """
    selection = Selection(**price)
    epsilon, delta = float(price["epsilon_selected"]), float(price["delta"])
    return card.model_copy(
        update={
            "epsilon": epsilon,
            "delta": delta,
            "accountant": "selection",
            "tight": False,
            "epsilon_rdp": epsilon,
            "epsilon_replace_one": None,
            "own_bounds": (EPSILON,),
            "epsilon_one_trial": card.epsilon,
            **{each.name: price.get(each.name) for each in fields(ClaimMeaning)},
            "guarantee": _guarantee(card, selection, epsilon),
            "covers": "the training records and the choice among the trials; validation"
            " and test records are not covered",
            "not_covered": (
                *(line for line in card.not_covered if not line.startswith(_CHOICE)),
                "the trials that were not released, for a reader of one of them; their"
                " number, and how long the sweep took, which reveals it",
            ),
            "selection": selection,
        }
    )


def around(price: Selection) -> list[str]:
    """Sentences about the sweep of a trial that alone was released."""
    mean = price.mean or 0.0
    selected, composed = map(
        format_epsilon, (price.epsilon_selected, price.epsilon_composed)
    )
    return [
        f"epsilon_selected {selected} at delta {format_delta(price.delta)}: this trial"
        f" alone left,"
        f" the best of a secret number of trials ({price.law} law, mean {mean:g})",
        f"{round(mean)} trials that were all shown would cost {composed} together;"
        f" `sweep unseal`"
        " shows them, and their composition then takes the place of epsilon_selected",
    ]


def _guarantee(card: PrivacyCard, price: Selection, epsilon: float) -> str:
    change = neighbours(card.unit, card.neighboring_relation)
    if math.isinf(epsilon):
        return f"**No finite epsilon holds** for {change}."
    return (
        "This model, the best of a secret number of trials by its error on validation"
        f" records, is ({format_epsilon(epsilon)},"
        f" {format_delta(price.delta)})-differentially private for {change}. The number"
        f" was drawn from a {price.law} law with mean {price.mean:g}; a trial alone"
        f" would be ({format_epsilon(card.epsilon)}, {format_delta(card.delta)})."
    )
