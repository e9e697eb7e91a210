"""The order in which trials begin: the longest first, each encoding computed once."""

from sweep.planning.order import longest_first
from sweep.store.plans import PlannedTrial
from trainables.config.trial import parse


def planned(name, **fields):
    config = parse(fields)
    return PlannedTrial(
        id=name, variant=name, baseline=False, values={}, origin=config, num_records=640
    )


def heads(name, steps, **model):
    return planned(
        name,
        engine="sgd",
        model={"name": "features", **model},
        privacy={"sampling": "full"},
        training={"steps": steps},
    )


def clc(name, **training):
    return planned(
        name, engine="sgd", privacy={"sampling": "poisson"}, training=training
    )


def order(*trials):
    return [trial.id for trial in longest_first(trials)]


def test_the_longest_trial_begins_first_and_equal_ones_in_their_order():
    short, long = clc("short", epochs=2), clc("long", epochs=20)
    twin = clc("twin", epochs=20)
    none = planned("none", engine="untrained")
    assert order(none, short, long, twin) == ["long", "twin", "short", "none"]


def test_one_trial_of_an_encoding_begins_first_and_the_others_later():
    """They would wait for its features while other trials could train."""
    trials = clc("clc", epochs=8), heads("first", 30), heads("second", 40)
    assert order(*trials) == ["first", "clc", "second"]
