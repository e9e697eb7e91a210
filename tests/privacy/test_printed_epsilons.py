"""Every printed epsilon is rounded up: no place formats one itself; none prints less
than it is.
"""

import ast
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.results.tables.trials import violations
from sweep.synthesis import data_card
from tests.sweep.results.test_select import record
from trainables import formats
from trainables.cards import card as cards
from trainables.cards.page import to_markdown
from trainables.dp.accounting.rounding import format_epsilon

ROOT = Path(__file__).parents[2]
HOUSES = ("sweep", "dashboards", "trainables", "search_spaces")
# An upper bound of what is spent, or a certified lower bound.
_EPSILON = re.compile(r"\b(epsilon\w*|together|spent|cheapest|smallest|gaussian_mu)\b")
_LIMITS = re.compile(r"epsilon_max|target_epsilon|self\.limit")


def own_roundings(source):
    """Expressions in f-strings that round an epsilon by a format of their own.

    >>> list(own_roundings('f"{epsilon:.4g} {ser:.4g} {format_epsilon(epsilon)}"'))
    ['epsilon']
    """
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FormattedValue) or node.format_spec is None:
            continue
        spec, value = ast.unparse(node.format_spec), ast.unparse(node.value)
        rounds = re.search(r"\.\d+[fge]", spec) is not None
        if rounds and _EPSILON.search(value) and not _LIMITS.search(value):
            yield value


def test_no_place_rounds_an_epsilon_by_itself():
    found = {
        f"{path.relative_to(ROOT)}: {value}"
        for house in HOUSES
        for path in (ROOT / house).rglob("*.py")
        if path.name != "rounding.py"
        for value in own_roundings(path.read_text())
    }
    assert not found


def privacy_card(epsilon):
    card = cards.PrivacyCard(
        trial_id="t",
        epsilon=epsilon,
        delta=1e-5,
        accountant="pld",
        tight=True,
        gaussian_mu=0.0,
        max_tpr_1pct=1.0,
        max_tpr_01pct=1.0,
        max_advantage=1.0,
        epsilon_rdp=epsilon,
        epsilon_replace_one=epsilon,
        noise_multiplier=1.0,
        effective_noise_multiplier=(1.0,),
        neighboring_relation="add_or_remove_one",
        guarantee=f"({format_epsilon(epsilon)}, 1e-05)",
        unit="record",
        sensitivity=1.0,
        mechanism={},
        datasets={},
    )
    total = {"epsilon": epsilon, "delta": 1e-5, "accountant": "pld", "num_releases": 2}
    return to_markdown(cards.with_sweep(card, total=total, refused=""))


def synthetic_card(epsilon):
    return data_card.to_markdown(
        data_card.DataCard(
            epsilon=epsilon,
            delta=1e-5,
            neighboring_relation="add_or_remove_one",
            epsilon_replace_one=epsilon,
            accountant="pld",
            unaccounted=(),
            gaussian_mu=epsilon,
            max_tpr_1pct=0.2,
            max_tpr_01pct=0.02,
            max_advantage=0.02,
            unit="record",
            noise_multiplier=1.0,
            num_records=7,
            expected_batch_size=7,
            sample_rate=1.0,
            steps=7,
            histogram_noise_multiplier=0.0,
            released=(),
            method="one_stage",
            corpus="pairs",
            provenance=(),
            filters=data_card.Filters(
                min_words=1, max_words=60, patterns={}, drop_repeats=False
            ),
            not_covered=(),
            drawn=data_card.Draws(number=1, drawn=1, dropped={}, seed=0, decoding={}),
        )
    )


def violation(epsilon):
    broken = {"epsilon_lower_bound": 1.0, "epsilon_claimed": epsilon}
    (sentence,) = violations([replace(record("t"), violation=broken)])
    return sentence


PLACES = {
    "table, report, note": (lambda value: formats.figure("epsilon", value), r"^(\S+)$"),
    "claim of the card": (privacy_card, r"\((\S+), 1e-05\)"),
    "figure of the card": (privacy_card, r"\| epsilon \| (\S+) \|"),
    "replaced, on the card": (privacy_card, r"\| epsilon_replace_one \| (\S+) \|"),
    "sweep, on the card": (privacy_card, r"released trials together: epsilon (\S+) at"),
    "claim of the data card": (synthetic_card, r"\((\S+), 1e-05\)"),
    "mu of the data card": (synthetic_card, r"nearest Gaussian (\S+)"),
    "replaced, on the data card": (synthetic_card, r"replaced by another: (\S+)"),
    "broken claim": (violation, r"claims epsilon (\S+) and"),
}


@pytest.mark.parametrize("place", PLACES)
@settings(deadline=None, max_examples=60)
@given(st.one_of(st.floats(1e-6, 1e9), st.just(3.0005), st.just(math.inf)))
def test_what_is_printed_is_never_below_the_value(place, epsilon):
    write, pattern = PLACES[place]
    found = re.search(pattern, write(epsilon), re.MULTILINE)
    if math.isinf(epsilon):
        assert found is None or found[1] in ("inf", "∞")
        return
    assert epsilon <= float(found[1]) <= epsilon * 1.0011
