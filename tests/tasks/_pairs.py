"""A corpus of made pairs in a file, and tiny synthesis trials over it."""

from search_spaces.expansion import own_fields
from search_spaces.paths import set_all
from tests.lines import write_lines
from tests.trials import run_alone
from trainables.config.trial import parse
from trainables.models.parser.model import ParserSizes
from trainables.system.communication import Alone
from trainables.tasks._synthesis_setup import prepare
from trainables.tasks.parsing import ParserSettings

# Half a minute on 2,000 pairs.
SMALL = ParserSettings(
    sizes=ParserSizes(width=64, feed_forward=256),
    epochs=8,
    warmup_steps=50,
    learning_rate=2e-3,
)
NAMES = ("Ann", "Bo", "Cy", "Di", "Eve", "Flo", "Gus", "Hal", "Ida", "Jo")
DAYS = ("Monday", "Tuesday", "Friday", "Sunday")


def made_pairs(number):
    """Three kinds of requests over two domains."""
    rows = []
    for place in range(number):
        name, day = NAMES[place % 10], DAYS[place // 3 % 4]
        if place % 3 == 0:
            text = f"meet {name} on {day}"
            program = f'(Yield (CreateEvent (OnDay ({day})) (With "{name}")))'
        elif place % 3 == 1:
            text = f"when do I see {name} ?"
            program = f'(Yield (Event.start (FindEvent (With "{name}"))))'
        else:
            text = f"is it cold on {day} ?"
            program = f"(Yield (WeatherQueryApi (OnDay ({day}))))"
        domain = "weather" if place % 3 == 2 else "calendar"
        rows.append({"utterance": text, "lispress": program, "domain": domain})
    return rows


def write_pairs(folder, *, training=120, human=60):
    """A folder `pairs` with a training and a test file; its path."""
    place = folder / "pairs"
    place.mkdir(exist_ok=True)
    for name, number in (("train", training), ("test", human)):
        write_lines(place / f"pairs_{name}.jsonl", made_pairs(number))
    return place


def tiny(place, **changes):
    """A trial of a few thousand parameters; `changes` by dotted path. `place` is named
    relative to the data directory, because a trial's coins follow from its
    configuration.
    """
    fields = {
        "task": "synthesis",
        "engine": "dp_sgd",
        "data": {"name": "smcalflow", "path": place.name},
        "model": {
            "name": "causal_lm",
            "hidden_size": 16,
            "num_layers": 1,
            "num_heads": 2,
            "intermediate_size": 24,
            "dropout": 0.0,
        },
        "privacy": {"noise_multiplier": 1.0, "max_grad_norm": 0.5},
        "training": {"epochs": 2, "expected_batch_size": 20, "learning_rate": 1e-2},
        "synthesis": {
            "public_fraction": 0.25,
            "vocabulary_size": 300,
            "max_tokens": 48,
            "pretrain_epochs": 1,
            "parser_epochs": 1,
            "measuring_parser_epochs": 0,
            "num_generated": 12,
            "num_beams": 2,
        },
    }
    # What a change leaves unread or an engine lacks goes, and what is changed stays.
    fields, _ = own_fields(set_all(fields, changes.items()))
    return parse(set_all(fields, changes.items()))


def prepared(config, data_dir, *, folder=None):
    folder = data_dir if folder is None else folder
    where = {"data_dir": data_dir, "cache_dir": data_dir / "cache"}
    return prepare(config, comm=Alone(), folder=folder, **where)


def run_trial(config, folder, **others):
    return run_alone(config, folder / "trial", data=folder, **others)
