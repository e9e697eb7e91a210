import json

from sweep.planning.corpora import describe, overview
from tests.lines import read_lines, write_lines
from trainables import catalogue
from trainables.config.trial import data_config

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
    write_lines(folder / "mine.jsonl", [*rows, rows[7]])
    schema = {"intents": ["never", "text", "call"], "slots": ["contact", "time"]}
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
        assert row["public"] == entry.is_public
        assert row["description"], name
        assert "\n" not in row["description"]
        is_own = name in ("bio_folder", "json_lines", "pair_lines")
        assert bool(row["source"]) == (not row["at_hand"] and not is_own), name
    made = [name for name, row in rows.items() if row["at_hand"]]
    assert "video" in made, "it is made, and needs no file"
    assert "atis" not in made, "this data directory is empty"
    assert (rows["atis"]["num_training"], rows["atis"]["path"]) == (
        2463,
        str(tmp_path / "atis"),
    )
    assert rows["json_lines"]["num_records"] is None


def test_the_counts_of_a_corpus_add_up(settings, tmp_path):
    facts = describe(data_config(**corpus(tmp_path)), settings)
    assert (facts["num_records"], facts["num_duplicates"]) == (20, 1)
    assert (facts["num_training"], facts["num_validation"], facts["num_test"]) == (
        12,
        4,
        4,
    )
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


def test_a_split_that_the_corpus_does_not_have_is_said_in_place_of_its_parts(
    settings, tmp_path
):
    """The other figures stay."""
    fields = corpus(tmp_path)
    lines = read_lines(tmp_path / "mine.jsonl")
    rows = [{k: v for k, v in row.items() if k != "part"} for row in lines]
    write_lines(tmp_path / "mine.jsonl", rows)
    facts = describe(data_config(**{**fields, "num_records": 12}), settings)
    assert (facts["num_validation"], facts["num_test"]) == (None, None)
    assert "part" in facts["parts_because"]
    assert facts["num_records"] == 20
