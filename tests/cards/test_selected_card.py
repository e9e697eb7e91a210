"""A selection's best trial: its card has the selection's epsilon in every place of the
trial's.
"""

import json
import math
from dataclasses import asdict

import pytest

from trainables.cards.card import make, with_sweep
from trainables.cards.page import to_markdown
from trainables.cards.selected import of_selected
from trainables.config.mechanism import build_from
from trainables.config.trial import PrivacyConfig, TrainingConfig
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.privacy_semantics import meaning

_OWN = {"expected_batch_size": 64, "epochs": 3}


def _card():
    mechanism = build_from(
        "dp_sgd",
        PrivacyConfig(delta=1e-5, noise_multiplier=2.0),
        training=TrainingConfig(**_OWN),
        num_records=4_478,
    )
    return make(mechanism, account(mechanism), trial_id="0123456789ab", corpus="atis")


def _price(selected):
    return {
        **{"law": "geometric", "mean": 20.0, "delta": 2e-5, "num_configurations": 4},
        **{
            "epsilon_selected": selected,
            "epsilon_composed": 7.7381,
            "epsilon_one_trial": 0.5,
        },
        **asdict(meaning(selected, delta=2e-5)),
    }


def test_every_figure_of_the_guarantee_is_the_selections():
    own, made = _card(), of_selected(_card(), _price(3.3421))
    claim = asdict(meaning(3.3421, delta=2e-5))
    expected = {
        **{
            "epsilon": 3.3421,
            "epsilon_rdp": 3.3421,
            "epsilon_replace_one": None,
            "delta": 2e-5,
        },
        **{
            "accountant": "selection",
            "tight": False,
            "epsilon_one_trial": own.epsilon,
            **claim,
        },
    }
    found = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert expected.items() <= found.items()
    assert own.epsilon < 3.3421
    assert all(getattr(own, name) < allowed for name, allowed in claim.items())
    assert (
        "is (3.343, 2e-05)-differentially private for one record more or less"
        in made.guarantee
    )
    assert "geometric law with mean 20" in made.guarantee


def test_the_page_says_what_else_it_would_cost_and_what_is_not_covered():
    made = of_selected(_card(), _price(3.3421))
    total = {"epsilon": 3.3421, "delta": 1e-5, "accountant": "rdp", "num_releases": 1}
    around = with_sweep(made, total=total, refused="")
    for page in map(to_markdown, (made, around)):
        for words in (
            "epsilon_selected 3.343 at delta 2e-05",
            "20 trials that were all shown would cost 7.739",
            "their number, and how long the sweep took",
            "the choice among the trials; validation and test",
        ):
            assert words in page
        assert "the choice of this trial among others" not in page
    kept = [
        line for line in _card().not_covered if "the choice of this trial" not in line
    ]
    assert list(made.not_covered[:-1]) == kept != list(_card().not_covered)


def test_a_selection_without_a_guarantee_has_none():
    made = of_selected(_card(), _price(math.inf))
    assert made.guarantee.startswith("**No finite epsilon holds**")
    assert made.to_dict()["epsilon"] == "inf"
    assert "nan" not in to_markdown(made)


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_the_guarantee_names_the_neighbours(relation):
    own = _card().model_copy(update={"neighboring_relation": relation})
    words = {
        "add_or_remove_one": "more or less",
        "replace_one": "replaced by any other",
    }
    assert words[relation] in of_selected(own, _price(2.0)).guarantee
