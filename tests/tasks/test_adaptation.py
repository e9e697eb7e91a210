"""Adaptation by synthetic text: a function that the public pairs lack is learnt from
it.
"""

import torch

from benchmarks.synthesis.missing_function import adapt
from tests.refusals import refused
from tests.tasks.test_parsing import TINY
from trainables.data.pairs import Pair, PairCorpus

NAMES = [
    f"{a}{b}" for a in ("an", "to", "ki", "jo", "su") for b in ("na", "mo", "ta", "be")
]


def rows_of(verb, head, names):
    return tuple(
        Pair(f"{verb} with {n}", f'(Yield ({head} (name "{n}")))', "d") for n in names
    )


def learn(public, private, synthetic, *, steps=1):
    """The rows of the two sets of pairs and of the synthetic ones, all tested on eight
    of each.
    """
    made = (public, private, BOOK[:8] + WEATHER[:8])
    one, other, test = (PairCorpus("toy", pairs, public=True) for pairs in made)
    return adapt(
        one, other, synthetic, test, rule="Weather", settings=TINY, steps=steps, seed=0
    )


BOOK, WEATHER = rows_of("book", "Book", NAMES), rows_of("forecast", "Weather", NAMES)


def test_none_cannot_write_the_function_and_synthetic_text_teaches_it():
    torch.set_num_threads(1)
    rows = learn(
        BOOK, WEATHER, {"mine": [f"forecast with {n}" for n in NAMES[8:]]}, steps=80
    )
    assert list(rows) == ["none", "mine", "full"]
    exact = {
        name: row["scores"]["with"]["exact_match_anonymous"]
        for name, row in rows.items()
    }
    assert exact["none"] == 0
    assert exact["mine"] > 0.7
    assert exact["full"] > 0.7
    assert rows["none"]["scores"]["without"]["exact_match_anonymous"] > 0.7
    used = [row["num_with_function"] for row in rows.values()]
    assert (used[0], used[2]) == (0, len(NAMES))
    assert used[1] > 8


def test_what_cannot_be_compared_is_refused():
    with refused("public pairs without"):
        learn(WEATHER, BOOK, {})
    with refused("non-empty synthetic sets"):
        learn(BOOK, WEATHER, {"mine": []})
