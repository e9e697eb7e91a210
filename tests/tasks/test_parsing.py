import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.refusals import refused
from tests.tasks._pairs import SMALL
from trainables.config.trial import data_config
from trainables.data.pairs import Pair, PairCorpus, open_pairs
from trainables.errors import InvalidData
from trainables.models.parser.model import ParserSizes
from trainables.parse.graph import is_well_formed
from trainables.parse.linearise import linearise
from trainables.tasks.parsing import (
    ParserSettings,
    evaluate,
    gold_programs,
    load_parser,
    train_parser,
)

DATA = Path(os.environ.get("SWEEP_DATA_DIR", "data"))
SECRET = "xylophone"
TINY = ParserSettings(
    sizes=ParserSizes(width=32, feed_forward=64, encoder_layers=1, dropout=0.0),
    epochs=20,
    batch_size=16,
    learning_rate=5e-3,
    warmup_steps=20,
)
VERBS = {"book": "Book", "cancel": "Cancel", "move": "Move"}
DAYS = ["monday", "tuesday", "friday"]


def toy(names=("ann", "tom", "kim", "joe", "sue", "bob")):
    """Requests whose program is a function of the words: verb, copied name, day,
    number.
    """
    rows = [
        Pair(
            f"please {verb} lunch with {name} on {day} at {hour}",
            f'(Yield ({head} (^(Person) find (name "{name}")) :at {hour}L :on'
            f" ({day})))",
            dialogue=f"{verb}{name}",
        )
        for verb, head in VERBS.items()
        for name in names
        for day in DAYS
        for hour in (9, 10)
    ]
    return PairCorpus("toy", tuple(rows), public=True)


@pytest.fixture(scope="module")
def trained():
    torch.set_num_threads(1)
    losses = []
    parser = train_parser(
        toy(), settings=TINY, seed=0, report=lambda _, loss: losses.append(loss)
    )
    return parser, losses


def test_it_learns_and_copies_names_it_never_saw(trained):
    parser, losses = trained
    assert losses[-1] < 0.1 * losses[0]
    assert evaluate(parser, toy()).exact_match_literal > 0.95
    unseen = toy(names=("zoe", "uma"))
    found = evaluate(parser, unseen)
    assert found.exact_match_literal > 0.8
    assert found.well_formed_rate == 1


def test_whatever_it_reads_it_writes_a_program(trained):
    parser, _ = trained
    texts = [
        "",
        "   ",
        "?!",
        "zzz " * 500,
        "please book",
        "9 9 9 9",
        "漢字",
        '"(" )) \\',
    ]
    programs = parser.parse(texts)
    assert len(programs) == len(texts)
    assert all(map(is_well_formed, programs))


def test_an_untrained_parser_writes_programs_within_its_budget():
    parser = train_parser(toy(), settings=replace(TINY, epochs=1, max_length=9), seed=1)
    programs = set()
    for seed in range(20):
        random = torch.Generator().manual_seed(seed)
        for parameter in parser.model.parameters():
            torch.nn.init.normal_(parameter, std=1.0, generator=random)
        programs |= set(parser.parse([f"please book {i} with ann" for i in range(3)]))
    assert all(map(is_well_formed, programs))
    assert all(len(linearise(program)) <= 9 for program in programs)
    assert len(programs) > 5


def test_a_program_depends_on_its_utterance_alone(trained):
    parser, _ = trained
    texts = list(toy().utterances[:20])
    alone = [parser.parse([text])[0] for text in texts]
    assert parser.parse(texts) == alone
    assert parser.parse(texts[::-1]) == alone[::-1]
    assert parser.parse([]) == []


def test_same_seed_same_parser():
    """Whatever torch's own generator says, which stays as it was."""
    torch.manual_seed(5)
    before = torch.get_rng_state()
    settings = replace(TINY, epochs=1, sizes=ParserSizes(width=32, feed_forward=64))
    few = toy().select(range(32))
    one, same, other = (train_parser(few, settings=settings, seed=s) for s in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    weights = [parser.model.tokens.weight for parser in (one, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_anonymous_mode_writes_no_values_and_is_scored_without_them():
    parser = train_parser(
        toy(), settings=replace(TINY, literals="anon", epochs=10), seed=0
    )
    gold = gold_programs(parser, toy())
    assert '"STRING"' in gold[0].exact
    assert not any(
        name in program.exact for program in gold for name in ("ann", "9L", "10L")
    )
    programs = parser.parse(toy().utterances[:20])
    assert not any(
        name in program for program in programs for name in ("ann", "9L", "10L")
    )
    found = evaluate(parser, toy())
    assert found.exact_match_anonymous == found.exact_match_literal > 0


def test_a_saved_parser_is_the_same_parser(trained, tmp_path):
    parser, _ = trained
    parser.save(tmp_path / "p")
    loaded = load_parser(tmp_path / "p")
    texts = toy(names=("ann", "zoe")).utterances
    assert loaded.parse(texts) == parser.parse(texts)
    assert loaded.settings == parser.settings
    assert loaded.trained_on == {"name": "toy", "seed": 0}
    with refused("new or empty folder"):
        parser.save(tmp_path / "p")


@pytest.mark.parametrize(
    "damage",
    [
        *("nothing", "no json", "weights", "version", "shape"),
        *("token", "literals", "setting", "not a number"),
    ],
)
def test_a_folder_that_is_no_parser_is_refused(trained, tmp_path, damage):
    parser, _ = trained
    place = tmp_path / "p"
    if damage != "nothing":
        parser.save(place)
        fields = json.loads((place / "parser.json").read_text())
        vocabulary, weights = (
            fields["vocabulary"],
            load_file(place / "weights.safetensors"),
        )
        match damage:
            case "version":
                fields["format"] = 99
            case "shape":
                vocabulary["words"].append("more")
            case "token":
                vocabulary["tokens"][0] = 5
            case "literals":
                vocabulary["literals"] = "other"
            case "setting":
                fields["settings"]["more"] = 1
            case "not a number":
                weights["point.weight"][0, 0] = torch.nan
        (place / "parser.json").write_text(
            "{" if damage == "no json" else json.dumps(fields)
        )
        save_file(weights, place / "weights.safetensors")
        if damage == "weights":
            (place / "weights.safetensors").write_bytes(b"junk")
    with refused("expected a", InvalidData) as problem:
        load_parser(place)
    assert str(place) in str(problem.value)


def test_pairs_without_programs_are_refused():
    for program, words in (
        ("", "expected a program for every training pair"),
        (f"(let ({SECRET}) 1)", "expected well-formed programs in mine"),
    ):
        pairs = PairCorpus("mine", (Pair(SECRET, program, "d"),), public=False)
        with refused(words, hides=SECRET):
            train_parser(pairs, seed=0)


@pytest.mark.slow
def test_the_small_parser_learns_smcalflow():
    """A floor far below what it reaches (docs/guides/parsing.md), far above the
    commonest one.
    """
    if not (DATA / "smcalflow2").exists():
        pytest.skip(f"smcalflow2 is not in SWEEP_DATA_DIR={DATA}")
    torch.set_num_threads(1)
    pairs = open_pairs(
        data_config(name="smcalflow", path="smcalflow2/pairs_train_part.jsonl.gz"),
        data_dir=DATA,
    )
    parser = train_parser(
        pairs.select(range(2_000)), settings=replace(SMALL, epochs=24), seed=0
    )
    test = pairs.select(range(2_000, 2_300))
    found = evaluate(parser, test)
    commonest = max(set(test.programs), key=test.programs.count)
    assert found.well_formed_rate == 1
    assert (
        found.exact_match_anonymous > test.programs.count(commonest) / len(test) + 0.05
    )
