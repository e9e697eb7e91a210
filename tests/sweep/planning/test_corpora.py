"""Descriptions of corpora are counts that add up, and what is written out is read back equal."""

import json

import pytest

from sweep.planning.corpora import describe, overview, write_out
from tests.lines import read_lines, write_lines
from tests.refusals import refused
from tests.tasks._pairs import write_pairs
from trainables import catalogue
from trainables.config import data_config
from trainables.data.schema import read_schema
from trainables.errors import InvalidData

SECRET = "xylophone"
PARTS = 12 * ["train"] + 4 * ["validation"] + 4 * ["test"]


def corpus(folder, **changes):
    """Data fields of twenty records, one of them twice, by ten persons."""
    rows = [
        {
            "tokens": ["call", f"{SECRET}{n}", *(["now"] if n % 4 == 0 else [])],
            "tags": ["O", "B-contact", *(["B-time"] if n % 4 == 0 else [])],
            "intent": "text" if n < 5 else "call",
            "part": part,
            "group": f"person{n // 2}",
        }
        for n, part in enumerate(PARTS)
    ]
    lines = [json.dumps(row) + "\n" for row in [*rows, rows[7]]]
    (folder / "mine.jsonl").write_text("".join(lines))
    schema = {"intents": ["call", "text", "never"], "slots": ["contact", "time"]}
    (folder / "schema.json").write_text(json.dumps(schema))
    return {
        "name": "json_lines",
        "path": "mine.jsonl",
        "schema_file": "schema.json",
        "split": "official",
        **changes,
    }


def test_the_overview_has_every_corpus_of_the_shelf(settings, tmp_path):
    rows = {row["name"]: row for row in overview(settings)}
    assert tuple(rows) == catalogue.names("datasets")
    for name, row in rows.items():
        entry = catalogue.entry("datasets", name)
        assert row["kind"] == catalogue.kind_of("datasets", name)
        assert row["public"] == bool(entry.PUBLIC)
        assert row["description"], name
        assert "\n" not in row["description"]
    made = [name for name, row in rows.items() if row["at_hand"]]
    assert "video" in made, "it is made, and needs no file"
    assert "atis" not in made, "this data directory is empty"
    assert (rows["atis"]["num_training"], rows["atis"]["path"]) == (2463, str(tmp_path / "atis"))
    assert rows["json_lines"]["num_records"] is None


def test_the_counts_of_a_corpus_add_up(settings, tmp_path):
    facts = describe(data_config(**corpus(tmp_path)), settings)
    assert (facts["num_records"], facts["num_duplicates"]) == (20, 1)
    parts = (facts["num_training"], facts["num_validation"], facts["num_test"])
    assert parts == (12, 4, 4)
    assert facts["intents"] == {"call": 15, "text": 5, "never": 0}
    assert next(iter(facts["intents"])) == "call", "the commonest first"
    assert facts["slots"] == {"contact": 20, "time": 5}
    assert facts["num_tokens"] == 45
    assert facts["mean_length"] == 45 / 20
    assert (facts["max_length"], facts["num_types"]) == (3, 22)
    assert (facts["grouped"], facts["num_outside_schema"]) == (True, 0)
    assert facts["parts_because"].startswith("data.split=official: ")
    assert SECRET not in json.dumps(facts)


def test_the_order_of_the_records_changes_no_count(settings, tmp_path):
    one = describe(data_config(**corpus(tmp_path)), settings)
    lines = (tmp_path / "mine.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "turned.jsonl").write_text("".join(reversed(lines)))
    other = describe(data_config(**corpus(tmp_path, path="turned.jsonl")), settings)
    del one["fingerprint"], other["fingerprint"]
    assert one == other


def test_a_split_that_the_corpus_does_not_have_is_said_in_place_of_its_parts(settings, tmp_path):
    """The other figures stay."""
    fields = corpus(tmp_path)
    lines = read_lines(tmp_path / "mine.jsonl")
    rows = [{k: v for k, v in row.items() if k != "part"} for row in lines]
    write_lines(tmp_path / "mine.jsonl", rows)
    facts = describe(data_config(**{**fields, "num_records": 12}), settings)
    assert (facts["num_validation"], facts["num_test"]) == (None, None)
    assert "part" in facts["parts_because"]
    assert facts["num_records"] == 20


def test_a_made_corpus_that_is_written_out_is_the_same_corpus(settings, tmp_path):
    """Records and labels: only the file is another, and its schema is declared."""
    made = data_config(name="video", num_utterances=1000, seed=5)
    written = write_out(made, settings, target=tmp_path / "again.jsonl")
    assert written.utterances == tmp_path / "again.jsonl"
    assert written.schema == tmp_path / "again.schema.json"
    assert written.num_utterances == 1000
    files = {"path": "again.jsonl", "schema_file": "again.schema.json", "num_records": 450}
    again = data_config(name="json_lines", **files)
    first, second = describe(made, settings), describe(again, settings)
    differ = {name for name, value in first.items() if second[name] != value}
    assert differ <= {"name", "fingerprint", "schema_source"}
    more = write_out(made, settings, target=tmp_path / "third.jsonl")
    assert more.utterances.read_bytes() == written.utterances.read_bytes()
    assert more.schema.read_bytes() == written.schema.read_bytes()
    other = data_config(name="video", num_utterances=1000, seed=6)
    changed = write_out(other, settings, target=tmp_path / "other.jsonl")
    assert changed.utterances.read_bytes() != written.utterances.read_bytes()


def test_parts_and_groups_are_written_too(settings, tmp_path):
    fields = corpus(tmp_path)
    write_out(data_config(**fields), settings, target=tmp_path / "again.jsonl")
    read, again = (read_lines(tmp_path / name) for name in ("mine.jsonl", "again.jsonl"))
    assert again == read
    for name in ("mine.jsonl", "again.jsonl"):
        config = data_config(**{**fields, "path": name, "schema_file": None})
        assert "never" not in describe(config, settings)["intents"]
    labels = read_schema(tmp_path / "again.schema.json")
    assert (labels.intents, labels.slots) == (("call", "text", "never"), ("contact", "time"))


def test_slots_alone_are_written_without_an_intent(settings, tmp_path):
    row = {"tokens": ["call", "ann"], "tags": ["O", "B-contact"], "part": "train"}
    (tmp_path / "slots.jsonl").write_text(f"{json.dumps(row)}\n")
    config = data_config(name="json_lines", path="slots.jsonl")
    written = write_out(config, settings, target=tmp_path / "again.jsonl")
    assert json.loads(written.utterances.read_text()) == row


@pytest.mark.parametrize("taken", ["again.jsonl", "again.schema.json"])
def test_no_file_is_overwritten(settings, tmp_path, taken):
    config = data_config(**corpus(tmp_path))
    (tmp_path / taken).write_text("mine")
    before = sorted(tmp_path.iterdir())
    with refused(f"^expected a new file, got .*{taken}, which exists$"):
        write_out(config, settings, target=tmp_path / "again.jsonl")
    assert (tmp_path / taken).read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == before


def test_a_corpus_that_cannot_be_read_leaves_no_target(settings, tmp_path):
    fields = corpus(tmp_path)
    with refused("expected a folder to write to"):
        write_out(data_config(**fields), settings, target=tmp_path / "none" / "x.jsonl")
    with (tmp_path / "mine.jsonl").open("a") as file:
        file.write('{"tokens": []}\n')
    with refused("line 22", InvalidData, hides=SECRET):
        write_out(data_config(**fields), settings, target=tmp_path / "x.jsonl")
    assert not (tmp_path / "x.jsonl").exists()
    assert not (tmp_path / "x.schema.json").exists()


def test_pairs_are_described_by_their_programs_and_domains(settings, tmp_path):
    place = write_pairs(tmp_path, training=30, human=12)
    facts = describe(data_config(name="smcalflow", path=place.name), settings)
    assert facts["num_records"] == facts["num_with_program"] == 42
    assert facts["num_train"] + facts["num_validation"] + facts["num_test"] == 42
    assert facts["num_domains"] == 2
    assert 0 < facts["num_distinct_programs"] <= facts["num_distinct_utterances"] <= 42
    assert facts["max_length"] == 6
    assert "Ann" not in json.dumps(facts)
