"""The privacy card of a private selection's best trial: what holds for it is the selection's
epsilon, never its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.privacy.rounding import format_epsilon
from trainables.privacy.summary import plain

_CHOICE = "the choice of this trial among others"


def of_selected(card: Mapping[str, Any], price: Mapping[str, Any]) -> dict[str, Any]:
    """The card of a trial that left alone, from the one that it had among the others.

    `price` has `epsilon_selected`, `delta`, `law` and `mean` of the number of trials.
    """
    epsilon = float(price["epsilon_selected"])
    return {
        **card,
        "epsilon": plain(epsilon),
        "delta": price["delta"],
        "accountant": "selection",
        "tight": False,
        "epsilon_rdp": plain(epsilon),
        "epsilon_replace_one": None,
        "epsilon_one_trial": card["epsilon"],
        "guarantee": _guarantee(card, epsilon, price),
        "covers": "the training records and the choice among the trials; validation and test"
        " records are not covered",
        "not_covered": [
            *(line for line in card["not_covered"] if not line.startswith(_CHOICE)),
            "the trials that did not leave, whoever sees one of them; their number, and how long"
            " the sweep took, which tells of it",
        ],
        "selection": plain({**price, "refused": None}),
    }


def around(price: Mapping[str, Any]) -> list[str]:
    """The sweep around a trial that left alone, in sentences."""
    number, mean = round(float(price["mean"])), float(price["mean"])
    selected, composed = (
        format_epsilon(float(price[name])) for name in ("epsilon_selected", "epsilon_composed")
    )
    return [
        f"epsilon_selected {selected} at delta {price['delta']:g}: this trial alone left, the best"
        f" of a secret number of trials ({price['law']} law, mean {mean:g})",
        f"{number} trials that were all shown would cost {composed} together; `sweep unseal` shows"
        " them, and their composition then takes the place of epsilon_selected",
    ]


def _guarantee(card: Mapping[str, Any], epsilon: float, price: Mapping[str, Any]) -> str:
    changes = {
        "add_or_remove_one": "one {unit} more or less in the training set",
        "replace_one": "one {unit} of the training set replaced by any other",
    }
    unit = "group of records" if card["unit"] == "group" else "record"
    change = changes[card["neighboring_relation"]].format(unit=unit)
    if epsilon == float("inf"):
        return f"**No finite epsilon holds** for {change}."
    return (
        f"This model, the best of a secret number of trials by its error on validation records, is"
        f" ({format_epsilon(epsilon)}, {price['delta']:g})-differentially private for {change}."
        f" The number was drawn from a {price['law']} law with mean {price['mean']:g}; a trial"
        f" alone would be ({format_epsilon(float(card['epsilon']))}, {card['delta']:g})."
    )
