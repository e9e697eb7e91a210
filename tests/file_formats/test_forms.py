"""Files of common formats as other tools write them."""

import gzip
import json
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep import cli
from tests.lines import read_lines
from tests.refusals import refused
from tests.utterances import said
from trainables.data.bio import slots_lenient
from trainables.data.formats import Options, open_source, reading
from trainables.data.formats.reading import READERS
from trainables.data.records import Utterance
from trainables.errors import InvalidData, InvalidInput

SECRET = "xylophone"
CALL = said("call [who : ann lee]", "phone")


def read(path, **options):
    return list(open_source(path, options=Options(**options)).utterances())


def test_a_file_is_read_once(tmp_path):
    path = tmp_path / "a.jsonl"
    slots = [{"start": 2, "end": 4, "entity": "who", "value": "é😀"}]
    good = {"text": "a é😀", "intent": "phone", "slots": slots, "group": "7"}
    lines = [json.dumps(good), "{", json.dumps({**good, "text": 5})] * 900
    path.write_text("\n".join(lines))
    source = open_source(path, options=Options())
    path.unlink()
    found = list(source.located_utterances())
    call = said("a [who : é😀]", "phone", group="7")
    assert found[-3] == (f"{path} line 2698", call)
    assert (
        str(found[-2][1])
        == f"expected a JSON object in {path} line 2699: expected JSON"
    )
    assert (
        str(found[-1][1])
        == f"expected text in {path} line 2700 to be text, got a number"
    )
    assert list(map(str, source.utterances())) == [str(each) for _, each in found]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text,intent\nhi,greet\ncafé xylophone,order\n"),
        ("a.jsonl", '{"text": "café xylophone", "intent": "order"}\n'),
        ("a.json", '[{"text": "hi"},\n{"text": "café xylophone"}]\n'),
        ("a.yml", "nlu:\n- intent: order\n  examples: |\n    - café xylophone\n"),
        ("a.conll", "café O\nxylophone O\n"),
    ],
)
@pytest.mark.parametrize(
    "encoding", ["cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"]
)
def test_an_encoding_is_recognised_and_named(name, content, encoding, tmp_path):
    path = tmp_path / name
    path.write_text(content, encoding=encoding)
    source = open_source(path, options=Options())
    assert source.encodings == (encoding.removesuffix("-sig"),)
    *_, last = source.utterances()
    assert last.tokens == ("café", SECRET)


@pytest.mark.parametrize(
    ("name", "content", "seen"),
    [
        ("a.bin", bytes(range(256)), "bytes that are no text"),
        ("a.xml", b"<xylophone>", "a file .xml"),
        ("a.yml", b"rules: []", "a file .yml without nlu"),
        ("a.txt", b"xylophone", "text in no known form"),
        (
            "a.json",
            b'{"name": "xylophone", "sentences": [{"of": 1}]}',
            "the keys name, sentences",
        ),
        ("a.json", b'[{"of": "xylophone"}]', "a list of objects with the keys of"),
        (
            "a.json",
            b'{"call xylophone": "x"}',
            r"an object with the keys \(1 of them\)",
        ),
        (
            "a.json",
            b'{"a": [{"text": "x"}], "b": [{"text": "y"}]}',
            "one list of .* got a, b",
        ),
    ],
)
def test_what_is_refused_is_named_with_the_way_on(name, content, seen, tmp_path):
    (tmp_path / name).write_bytes(content)
    with refused(rf"{seen}.*pandas.DataFrame.*to_json", hides=SECRET):
        open_source(tmp_path / name, options=Options())


@pytest.mark.parametrize("form", READERS)
@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_break_a_reader(form, content):
    """Whatever a file holds, it is read or refused in one line that does not quote
    it.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        path.write_bytes(b"secret" + content)
        try:
            found = list(open_source(path, options=Options(), form=form).utterances())
        except InvalidInput as problem:
            found = [problem]
        said = [str(each) for each in found if isinstance(each, InvalidInput)]
        assert not any("\n" in each or "secret" in each for each in said)


def test_a_folder_without_labels_or_tags(tmp_path):
    for name, files in {
        "slots": {"seq.in": "call ann lee\n", "seq.out": "O B-who I-who\n"},
        "intents": {"seq.in": "call ann lee\n", "label": "phone\n"},
    }.items():
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
    assert read(tmp_path / "slots") == [Utterance(CALL.tokens, CALL.tags, "")]
    assert read(tmp_path / "intents") == [Utterance(CALL.tokens, ("O",) * 3, "phone")]
    (tmp_path / "intents" / "label").write_text("")
    with refused(r"as many lines in .*intents", InvalidData):
        read(tmp_path / "intents")


def test_a_folder_of_rasa(tmp_path):
    nlu = "nlu:\n- intent: go\n  examples: |\n    - go\n"
    for name, text in (("a.yml", nlu), ("b.yml", nlu), ("rules.yml", "rules: []\n")):
        (tmp_path / name).write_text(text)
    assert read(tmp_path) == [said("go", "go")] * 2


@pytest.mark.parametrize(
    ("example", "found"),
    [
        ("two [cups](count)", [("count", 1, 2)]),
        ('two [cups]("count")', [("count", 1, 2)]),
        ('[cups]{"entity": "count", "value": "a}b"} more', [("count", 0, 1)]),
        ('[cups]{"entity": "count", "group": "1"} and [tea](drink:chai)', "notes"),
        ("a [large [oat](milk) latte](drink)", None),
        ("two [cups] (count)", None),
        ("two [cups]", None),
        ("two cups](count)", None),
        ("two [](count)", None),
        ('two [cups]{"entity": 5}', None),
        ('two [cups]{"role": "count"', None),
        ("two [cups](a(b))", None),
    ],
)
def test_a_mark_is_understood_or_the_record_is_refused(tmp_path, example, found):
    path = tmp_path / "nlu.yml"
    path.write_text(
        f"nlu:\n- intent: order\n  examples: |\n    - a tea\n    - {example}\n"
    )
    source = open_source(path, options=Options())
    first, second = source.utterances()
    assert isinstance(first, Utterance)
    if found is None:
        assert str(second).startswith(
            f"expected each bracket in {path}, item 1 of nlu, example 2"
        )
        assert "cups" not in str(second).replace("[cups]", "")
        return
    if found == "notes":
        assert source.survey.notes == {"groups of entities": 1, "synonyms": 1}
    else:
        assert list(slots_lenient(second.tags)) == found


def test_what_rasa_skips_is_counted(tmp_path):
    path = tmp_path / "nlu.yml"
    path.write_text(
        "nlu:\n- intent: order\n  examples: |\n    - one\n    # - two\n    - three\n   "
        "   more\n- intent: yes\n  examples: |\n    - sure\n    - yep\n- lookup: x\n"
        "  examples: |\n    - y\n"
    )
    source = open_source(path, options=Options())
    assert source.survey.notes == {
        "lines without a dash or behind #": 2,
        "lookup items": 1,
    }
    assert list(source.utterances()) == [
        *(said("one", "order"), said("three", "order")),
        *(said("sure", "yes"), said("yep", "yes")),
    ]


@pytest.mark.parametrize("intent", ["007", "0x1F", "1_000", "1e3", "yes", "~", "12:30"])
def test_a_name_in_yaml_is_what_is_written(tmp_path, intent):
    path = tmp_path / "nlu.yml"
    path.write_text(f"nlu:\n- intent: {intent}\n  examples: |\n    - [7](n) of them\n")
    assert read(path) == [said("[n : 7] of them", intent)]


def arrow(folder, columns, features):
    import pyarrow

    folder.mkdir()
    known = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pyarrow.table(columns).replace_schema_metadata(known)
    with (
        pyarrow.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as file,
        pyarrow.ipc.new_stream(file, table.schema) as out,
    ):
        out.write_table(table)
    (folder / "dataset_info.json").write_text("{}")
    return folder


@pytest.mark.parametrize("sequence", ["Sequence", "List", "a list"])
def test_class_labels_have_their_names(tmp_path, sequence):
    label = {"names": ["O", "B-who", "I-who"], "_type": "ClassLabel"}
    tags = [label] if sequence == "a list" else {"feature": label, "_type": sequence}
    features = {
        "label": {"names": ["phone", "stop"], "_type": "ClassLabel"},
        "ner_tags": tags,
    }
    columns = {"tokens": [list(CALL.tokens)], "ner_tags": [[0, 1, 2]], "label": [0]}
    assert read(arrow(tmp_path / "a", columns, features)) == [CALL]


def test_the_splits_of_a_data_set_are_its_parts(tmp_path):
    arrow(tmp_path / "train", {"text": ["a"], "intent": ["x"]}, {})
    arrow(tmp_path / "test", {"text": ["b"], "intent": ["x"]}, {})
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    found = read(tmp_path)
    assert [each.part for each in found if isinstance(each, Utterance)] == [
        "train",
        "test",
    ]


def test_a_damaged_arrow_file_is_one_line(tmp_path):
    folder = arrow(tmp_path / "a", {"text": [SECRET], "intent": ["x"]}, {})
    file = folder / "data-00000-of-00001.arrow"
    file.write_bytes(file.read_bytes()[:40] + SECRET.encode())
    with refused("Parquet or Arrow in", InvalidData, hides=SECRET):
        read(folder)


def test_excel(tmp_path, monkeypatch):
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"no archive")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "openpyxl", None)
        with refused(r"pip install 'openpyxl>=3\.1'.*CSV"):
            read(path)
    with refused("expected an Excel file in", InvalidData):
        read(path)
    import pandas as pd

    table = pd.DataFrame(
        {"Text": ["stop it", None], "Label": ["stop", None], "n": [1, None]}
    )
    table.to_excel(path, index=False)
    assert read(path) == [said("stop it", "stop")]
    with pd.ExcelWriter(path) as book:
        for sheet in ("train", "test"):
            table.to_excel(book, sheet_name=sheet, index=False)
    assert [each.part for each in read(path) if isinstance(each, Utterance)] == [
        "train",
        "test",
    ]
    with pd.ExcelWriter(path) as book:
        for sheet in ("a", "b"):
            table.to_excel(book, sheet_name=sheet, index=False)
    with refused(r"a sheet a part, got a, b"):
        read(path)
    pd.DataFrame([[SECRET, "stop"]]).to_excel(path, index=False, header=False)
    with refused("--no-header", hides=SECRET):
        read(path)
    (found,) = read(path, text="1", intent="2", header=False)
    assert found == Utterance((SECRET,), ("O",), "stop")


_TWO = "nlu:\n- intent: a\n  examples: |\n    - one\n    - two\n"
_MORE = "- intent: b\n  examples:\n  - three\n  - four\n"


@pytest.mark.parametrize(
    ("text", "line", "left"),
    [
        (_TWO.replace("    - two", "  - two") + _MORE, 5, "one three four"),
        (_TWO.replace("    - two", "\t- two") + _MORE, 5, "one three four"),
        (_TWO + _MORE.replace("- three", '- "three'), 8, "one two four"),
        (_TWO + _MORE.replace("- three", "- [three"), 8, "one two four"),
        (_TWO + _MORE.replace("- three", "- *three"), 8, "one two four"),
        (
            _MORE.replace("- int", "nlu:\n- int").replace("b", "b: c") + _TWO[5:],
            2,
            "one two",
        ),
        (_TWO + _MORE.replace("b", '"b'), 6, "one two"),
    ],
)
def test_a_bad_line_of_yaml_loses_its_record_alone(text, line, left, tmp_path, capsys):
    path, to = tmp_path / "nlu.yml", tmp_path / "out.jsonl"
    path.write_text(text)
    words = ("data", "convert", str(path), "--to", str(to))
    assert cli.run(words) == 2
    said = f"expected YAML in {path}, line {line} (--skip-invalid"
    assert said in capsys.readouterr().err
    assert cli.run((*words, "--skip-invalid")) == 0
    found = [row["tokens"] for row in read_lines(to)]
    assert found == [[word] for word in left.split()]


@pytest.mark.parametrize("name", ["a.csv.gz", "a.zip"])
def test_what_is_packed_is_bounded_and_may_be_damaged(name, tmp_path, monkeypatch):
    path = tmp_path / name
    content = b"text,intent\n" + 200 * b"play it,music\n"
    if name == "a.zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.csv", content)
            archive.writestr("__MACOSX/._a.csv", b"other")
            archive.writestr("/etc/passwd", b"other")
    else:
        path.write_bytes(gzip.compress(content))
    assert read(path) == [said("play it", "music")] * 200
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with refused("cannot read .*a.(csv.gz|zip): |expected a file", InvalidInput):
        read(path)
    path.write_bytes(whole)
    monkeypatch.setattr(reading, "_MOST_BYTES", 1_000)
    with refused("at most 1000 bytes in .*a.csv|a file of utterances", InvalidInput):
        read(path)
