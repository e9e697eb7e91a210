"""The readers: records of real corpora, and one-line errors for damaged files."""

import json
import os
from pathlib import Path

import pytest

from tests.datasets.ship import shipped_text
from tests.lines import write_lines
from tests.refusals import refused
from trainables import catalogue
from trainables.config.trial import data_config
from trainables.data import schema as schemas
from trainables.data.formats import Options, open_source
from trainables.errors import InvalidData
from trainables.io.files import without_problems

DATA = Path(os.environ.get("SWEEP_DATA_DIR", "data"))
SECRET = "xylophone"  # stands for private text: no message may contain it


def real(name):
    place = DATA / catalogue.entry("datasets", name).place
    if not place.exists():
        pytest.skip(f"{name} is not in SWEEP_DATA_DIR={DATA}")
    return place


def folder(
    path, *, text="call ann\nplay it\n", tags="O B-who\nO O\n", label="call\nplay\n"
):
    path.mkdir(exist_ok=True)
    for name, content in (("seq.in", text), ("seq.out", tags), ("label", label)):
        data = content if isinstance(content, bytes) else content.encode()
        (path / name).write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "utterances", "intents", "slots"),
    [("atis", 5_871, 26, 83), ("snips", 14_484, 7, 39), ("nlu_eval", 11_036, 64, 54)],
)
def test_real_corpora_are_read_whole(name, utterances, intents, slots):
    place = real(name)
    config = data_config(name=name)
    found = list(config.read(place))
    schema = config.labels(place)
    assert len(found) == utterances
    assert (len(schema.intents), len(schema.slots)) == (intents, slots)
    assert {u.intent for u in found} <= set(schema.intents)
    assert {tag for u in found for tag in u.tags} <= set(schema.tags)
    assert all(len(u.tokens) == len(u.tags) > 0 for u in found)


@pytest.mark.parametrize("name", ["atis", "snips", "nlu_eval"])
def test_the_schemas_that_ship_are_those_of_the_corpora(name):
    real(name)
    shipped = Path(schemas.__file__).parent / "schemas" / f"{name}.json"
    assert shipped.read_text() == shipped_text(name, DATA)


def test_nlu_eval_tokens_and_slots_are_those_of_its_plain_text():
    import csv

    place = real("nlu_eval")
    with place.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    found = list(data_config(name="nlu_eval").read(place))
    for row, utterance in zip(rows, found, strict=True):
        assert "".join(utterance.tokens) == "".join(row["answer_from_anno"].split())
        begun = sum(tag.startswith("B-") for tag in utterance.tags)
        assert begun == row["answer_annotation"].count("[")


def test_the_complete_nlu_eval_file_in_its_own_format(tmp_path):
    path = tmp_path / "all.csv"
    path.write_text(
        "userid;answerid;scenario;intent;status;answer_annotation;notes;suggested_entities;"
        "answer_normalised;answer;question\n"
        '1;1;alarm;set;MOD;"wake me at [time : ""nine"" am]";;;;;\n'
        "1;2;music;dislikeness;;no more [artist_name : abba];;;;;\n"
        "1;3;alarm;set;IRR_XR;whatever;;;;;\n"
        "1;4;alarm;set;;null;;;;;\n"
    )
    config = data_config(name="nlu_eval", path=str(path))
    found = list(config.read(path))
    assert [u.intent for u in found] == ["alarm_set", "music_dislikeness"]
    assert found[0].tokens == ("wake", "me", "at", '"nine"', "am")
    assert found[0].tags == ("O", "O", "O", "B-time", "I-time")
    schema = config.labels(path)
    assert "music_dislikeness" in schema.intents
    assert schema.public


def test_parts_of_a_bio_folder(tmp_path):
    for part in ("train", "dev", "test"):
        folder(tmp_path / part)
    found = list(data_config(name="bio_folder").read(tmp_path))
    assert [u.part for u in found] == ["train"] * 2 + ["validation"] * 2 + ["test"] * 2
    assert not data_config(name="bio_folder").labels(tmp_path).public


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"text": f"call ann\nplay it\n{SECRET}\n"}, r"seq.out .* ends before line 3"),
        ({"label": "call\n"}, r"label .* ends before line 2"),
        (
            {"tags": f"O B-who\nO {SECRET}\n"},
            r"B-name or I-name in .*seq.in line 2, tag 2",
        ),
        ({"text": SECRET.encode() + b" \xff\nplay it\n"}, r"UTF-8 in .*seq.in line 1"),
        ({"text": "", "tags": "", "label": ""}, r"x, got an empty file"),
        ({"label": "call\n \n"}, r"intent for every record.*seq.in line 2"),
    ],
)
def test_a_damaged_bio_folder_is_named_by_file_and_line(tmp_path, damage, message):
    with refused(message, InvalidData, hides=SECRET):
        list(data_config(name="bio_folder").read(folder(tmp_path / "x", **damage)))


def test_missing_files_are_named(tmp_path):
    with refused("nothing there", InvalidData):
        data_config(name="bio_folder").files(tmp_path / "nowhere")
    (folder(tmp_path / "x") / "label").unlink()
    with refused("file label", InvalidData):
        data_config(name="bio_folder").files(tmp_path / "x")
    for name in ("nlu_eval", "json_lines"):
        with refused("got none", InvalidData):
            data_config(name=name).files(tmp_path / "nowhere")


_HEAD = "scenario;intent;answer_annotation\n"
_GOOD = {"text": f"call {SECRET}", "slots": [["who", 1, 2]], "intent": "call"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "column scenario"),
        ("fold;scenario\n", "column intent"),
        (f"{_HEAD}a;b\n", "3 columns in .* line 2, got 2"),
        (f"{_HEAD}a;b;[x : {SECRET}\n", "line 2, got a bracket"),
        (f"{_HEAD}a;;{SECRET}\n", "intent in .* line 2"),
        (f"fold;{_HEAD}11;a;b;{SECRET}\n", "fold from 1 to 10"),
        ([_GOOD | {"intent": 0.5}], "intent in .* line 1"),
        ([_GOOD | {"tokens": ["a"]}], "either text or tokens"),
        ([_GOOD | {"tags": ["O"]}], "either tags or slots"),
        ([_GOOD | {SECRET: 1}], "got 1 more"),
        ([_GOOD | {"group": "g"}, _GOOD], "every record or for none.* line 2"),
    ],
)
def test_a_damaged_file_is_named_by_line_and_field(tmp_path, content, message):
    path = tmp_path / "x.csv"
    is_table = isinstance(content, str)
    path.write_text(content) if is_table else write_lines(path, content)
    with refused(message, InvalidData, hides=SECRET):
        config = data_config(name="nlu_eval" if is_table else "json_lines")
        list(config.read(path))


def test_both_forms_of_json_lines_say_the_same(tmp_path):
    rows = [
        {
            "tokens": ["call", "ann", "lee"],
            "tags": ["O", "B-who", "I-who"],
            "intent": "call",
        },
        {"text": "call  ann lee", "slots": [["who", 1, 3]], "intent": "call"},
        {"text": "stop", "slots": [], "intent": "stop", "part": "test"},
    ]
    path = write_lines(tmp_path / "x.jsonl", rows)
    first, second, third = data_config(name="json_lines").read(path)
    assert first == second
    assert (third.tags, third.part, third.group) == (("O",), "test", None)


def test_a_schema_file_is_the_users_word(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps({"intents": ["call"], "slots": ["who"]}))
    schema = schemas.read_schema(path)
    assert schema.public
    assert schema.tags == ("O", "B-who", "I-who")
    for text, message in (
        ("{", "JSON in"),
        ("[]", "JSON object"),
        ('{"intents": [], "slots": []}', "at least one of intents"),
        ('{"intents": ["a", "a"], "slots": []}', "each label once"),
        ('{"intents": ["a"], "slots": [1]}', "list of names"),
        ('{"intents": ["a"], "slots": [], "tags": []}', "got 'tags'"),
    ):
        path.write_text(text)
        with refused(message, InvalidData):
            schemas.read_schema(path)
    with refused("schema_file: cannot read", InvalidData):
        schemas.read_schema(tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("long", "why"),
    [
        (f"{SECRET} " * 1_025, "expected at most 1024 words, got 1025"),
        (f"{SECRET} {'x' * 1_001}", "expected words of at most 1000 characters"),
    ],
)
def test_a_record_that_no_model_would_predict_is_refused_wherever_it_is_read(
    tmp_path, long, why
):
    words = long.split()
    rows = [
        {"text": "call ann", "intent": "call"},
        {"text": long.strip(), "intent": "call"},
    ]
    lines = write_lines(tmp_path / "own.jsonl", rows)
    tags = " ".join("O" for _ in words)
    place = folder(tmp_path / "bio", text=f"call ann\n{long}\n", tags=f"O O\n{tags}\n")
    for found, where in (
        (data_config(name="json_lines").read(lines), "own.jsonl line 2"),
        (data_config(name="bio_folder").read(place), "seq.in line 2"),
        (
            without_problems(open_source(lines, options=Options()).utterances()),
            "own.jsonl line 2",
        ),
    ):
        with refused(f"{why}.* in .*{where}", InvalidData, hides=SECRET):
            list(found)
