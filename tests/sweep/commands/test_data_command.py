import json
import re

import pytest

from tests.lines import read_lines, write_lines
from tests.sweep.line import Line

SECRET = "xylophone"


@pytest.fixture
def line(capsys):
    """No answer quotes a record."""

    class Discreet(Line):
        def __call__(self, *words):
            code, out, err = super().__call__(*words)
            assert SECRET not in out + err
            return code, out, err

    return Discreet(capsys)


def sound(number):
    return [
        {"text": f"say {SECRET}{n}", "intent": "say" if n else "rare"}
        for n in range(number)
    ]


def test_the_first_problems_are_listed_and_the_rest_counted(place, line):
    bad = [{"text": SECRET, "intent": "say", "slots": [["x", 0, 9]]} for _ in range(23)]
    other = [
        {"text": f"{SECRET} z", "intent": SECRET},
        {"text": f"z {SECRET}", "tags": ["O"]},
    ]
    path = write_lines(place / "mine.jsonl", [*sound(3), *bad, *other])
    (place / "schema.json").write_text('{"intents": ["say", "rare"], "slots": []}')
    chosen = ("--schema", "schema.json", "--spans", "tokens")
    code, out, err = line("data", "check", path, *chosen)
    assert code == 2
    message = (
        f"expected a corpus without problems in {path}, got 25 problems in 28 records"
    )
    assert err == f"error: {message}\n"
    assert re.findall(r" line (\d+)", out) == ["4", "5", "6", "7", "8", "27", "28"]
    assert re.findall("and .* of this kind", out) == ["and 18 more of this kind"]
    code, out, _ = line("data", "check", path, *chosen, "--json")
    facts = json.loads(out)
    assert (code, facts["ok"], facts["num_problems"]) == (2, False, 25)


def test_warnings(place, line):
    rows = [{**row, "part": "train", "group": "ann"} for row in sound(40)]
    rows += [
        {"text": f"Say {SECRET}7!", "intent": "say", "part": "test", "group": "ann"},
        {"text": f"say {SECRET}3", "intent": "say", "part": "test", "group": "bob"},
    ]
    out = line.says("data", "check", write_lines(place / "mine.jsonl", rows))
    for words in (
        "With only 40 training records, linear heads with DP",
        "There are no validation records",
        "1 of 2 intents have fewer than 5 records",
        "1 texts are in the training part and in another one",
        "1 validation and test records differ from a training record",
        "The largest of 2 groups has 41 records, the median",
        "1 groups have records in several parts",
        "No problem in 42 records.",
    ):
        assert words in out, words


def test_describe_counts_labels_by_part(place, line):
    rows = [{**row, "slots": [["what", 1, 2]]} for row in sound(9)]
    rows += [{**rows[1], "text": "say it", "part": "test"}, rows[1]]
    path = write_lines(place / "mine.jsonl", rows)
    facts = line.facts("data", "describe", path, "--spans", "tokens")
    assert facts["labels"] == {
        "intents": {"say": {"train": 8, "test": 1}, "rare": {"train": 1}},
        "slots": {"what": {"train": 9, "test": 1}},
    }
    assert (facts["num_duplicates"], facts["max_length"]) == (1, 2)
    assert facts["parts"] == {"train": 9, "validation": 0, "test": 1}
    assert facts["parts_because"].startswith("the file lacks a part")
    assert "rare" in line.says("data", "describe", path, "--spans", "tokens")


def test_the_facts_of_a_corpus_stand_in_one_column(place, line):
    path = place / "pairs.jsonl"
    path.write_text(
        json.dumps({"utterance": SECRET, "lispress": "(Yield)", "part": "train"})
    )
    out = line.says("data", "describe", "pair_lines", "--set", f"path={path}")
    names = [line.split(" ")[0] for line in out.splitlines()]
    assert "num_distinct_utterances" in names
    starts = {
        len(line) - len(line[len(n) :].lstrip())
        for n, line in zip(names, out.splitlines(), strict=True)
    }
    assert starts == {max(map(len, names)) + 1}


def test_every_command_says_how_a_file_was_read(place, line):
    """Which fields are read and which not, three counts, and what happened to slots."""
    rows = [
        {
            "utterance": f"say {SECRET}{n}!",
            "topic": "ab"[n % 2],
            "ner": [{"start": 4, "end": 13, "label": "what"}],
            "id": n,
        }
        | {"entities": [[4, 13, "what"], [4, 13, "what"]] if n else [[3, 13, "what"]]}
        for n in range(40)
    ]
    path = write_lines(place / "mine.jsonl", rows)
    warned = (
        "The field ner looks like labels and is not read (--slots ner reads it).",
        "The field topic looks like labels and is not read (--intent topic reads it).",
    )
    for command in (
        ("data", "check", path),
        ("data", "describe", path),
        ("data", "convert", path, "--to", "new.jsonl"),
        ("init", path, "--to", "new"),
    ):
        said = " ".join(line.says(*command).split())
        assert (
            "read as json_lines in utf-8; text from utterance, slots from entities; not"
            " read: id, ner, topic; spans count characters. 40 records, 0 with an"
            " intent, 40 with a slot."
        ) in said, command
        assert "extended to the whole token (40;" in said
        assert "lost white space at an end (1)" in said
        assert "No problem" not in said
        assert command[1] == "convert" or all(sentence in said for sentence in warned)
    facts = line.facts("data", "check", path)["reading"]
    assert facts["read"] == {"text": ["utterance"], "slots": ["entities"]}
    assert facts["overlooked"] == {"ner": "slots", "topic": "intent"}


def test_one_part_alone(place, line):
    rows = [
        {**row, "part": "test" if n % 3 else "dev"} for n, row in enumerate(sound(9))
    ]
    path = write_lines(place / "mine.jsonl", rows)
    out = line.says("data", "convert", path, "--only", "test", "--to", "x.jsonl")
    assert out.splitlines()[-1] == "x.jsonl: 6 records."


def test_an_absent_corpus_is_named_with_its_source_and_its_place(place, line):
    out = line.says("data", "list")
    assert (
        f"put it in {place / 'data' / 'atis'}" in out or "atis is published at" in out
    )
    assert "https://github.com/monologg/JointBERT, its folder data/atis; put it" in out
    assert "video is published" not in out


def test_a_corpus_becomes_a_table_that_is_read_back(place, line):
    given = ("communication", "--set", "num_utterances=1000")
    for name, words in (("a.csv", given), ("a.jsonl", given), ("b.jsonl", ("a.csv",))):
        line.says("data", "convert", *words, "--to", name)
    assert read_lines(place / "a.jsonl") == read_lines(place / "b.jsonl")
    _, _, err = line("data", "convert", "treedst", "--to", "c.csv")
    assert "expected a corpus with intents and slots, got treedst" in err
