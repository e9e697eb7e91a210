"""Adaptation by synthetic text: a function that the public pairs lack is learnt from it."""

import torch

from tests.refusals import refused
from trainables.data.pairs import Pair, PairCorpus
from trainables.models.parser import ParserSizes
from trainables.tasks.adaptation import adapt, join
from trainables.tasks.parsing import ParserSettings

SETTINGS = ParserSettings(
    sizes=ParserSizes(width=32, feed_forward=64, encoder_layers=1, dropout=0.0),
    batch_size=16,
    learning_rate=5e-3,
    warmup_steps=20,
)
NAMES = [f"{a}{b}" for a in ("an", "to", "ki", "jo", "su") for b in ("na", "mo", "ta", "be")]


def pairs(verb, head, names, name="toy"):
    rows = (Pair(f"{verb} with {n}", f'(Yield ({head} (name "{n}")))', "d") for n in names)
    return PairCorpus(name, tuple(rows), public=True)


def test_none_cannot_write_the_function_and_synthetic_text_teaches_it():
    torch.set_num_threads(1)
    public = pairs("book", "Book", NAMES)
    private = pairs("forecast", "Weather", NAMES)
    test = join(pairs("book", "Book", NAMES[:8]), pairs("forecast", "Weather", NAMES[:8]))
    rows = adapt(
        public,
        private,
        {"mine": [f"forecast with {n}" for n in NAMES[8:]]},
        test,
        rule="Weather",
        settings=SETTINGS,
        steps=80,
        seed=0,
    )
    assert list(rows) == ["none", "mine", "full"]
    exact = {name: row.scores["with"].exact_match_anonymous for name, row in rows.items()}
    assert exact["none"] == 0
    assert exact["mine"] > 0.7
    assert exact["full"] > 0.7
    assert rows["none"].scores["without"].exact_match_anonymous > 0.7
    assert (rows["none"].num_with_function, rows["full"].num_with_function) == (0, len(NAMES))
    assert rows["mine"].num_with_function > 8


def test_what_cannot_be_compared_is_refused():
    public, private = pairs("book", "Book", NAMES), pairs("forecast", "Weather", NAMES)

    def run(one, other, sets):
        return adapt(one, other, sets, private, rule="Weather", settings=SETTINGS, steps=1, seed=0)

    with refused("public pairs without"):
        run(private, public, {})
    with refused("non-empty synthetic sets"):
        run(public, private, {"mine": []})
    with refused("non-empty synthetic sets"):
        run(public, private, {"full": ["a"]})
