"""What is easily read wrong in silence: it is read right, or a warning or a refusal with
its count says so, and a line that is printed reads it whole when it is copied.
"""

import json
import re
import shlex

import pytest

from sweep import cli
from tests.lines import read_lines, write_lines
from tests.refusals import refused
from tests.utterances import said
from trainables.data.formats import Options, open_source, reading
from trainables.errors import InvalidData


def source(path, content, **options):
    if isinstance(content, str):
        path.write_text(content, newline="")
    elif path.suffix == ".json":
        path.write_text(json.dumps(content))
    else:
        write_lines(path, content)
    return open_source(path, options=Options(**options))


def run(capsys, *words):
    code = cli.run(words)
    found = capsys.readouterr()
    return code, found.out + found.err


BOOK = said("a table for [people : two]", "book")
NESTED = [
    {
        "user": {"text": "a table for two"},
        "annotation": {"intent": {"name": "book"}},
        "labels": [{"slot": "people", "span": {"from": 12, "to": 15}}],
    },
    {
        "user": {"text": "no thanks"},
        "annotation": {"intent": {"name": "decline"}},
        "labels": [],
    },
]
COUNTED = [
    {"body": {"said it": 5, "words": "a table for two"}, "goal": "book"}
    | {"marks": [{"kind": {"type": "people"}, "at": {"offset": 12, "length": 3}}]},
    {"body": {"words": "no thanks"}, "goal": "decline", "marks": []},
]


@pytest.mark.parametrize(
    ("name", "records", "line"),
    [
        (
            "a.jsonl",
            NESTED,
            "--text user.text --intent annotation.intent.name --slots"
            " 'labels[].{name: slot, start: span.from, end: span.to}'",
        ),
        ("a.json", {"a": {"of": NESTED}}, "--text user.text"),
    ],
)
def test_the_printed_line_reads_the_whole_file(name, records, line, tmp_path, capsys):
    path, to = tmp_path / name, tmp_path / "out.jsonl"
    with pytest.raises(InvalidData):
        source(path, records)
    code, out = run(capsys, "data", "check", str(path))
    assert code == 2
    assert line in out
    options = shlex.split(re.search(r"\(try (.*?)\) ?(\(`|$)", out.strip(), re.M)[1])
    code, out = run(capsys, "data", "convert", str(path), "--to", str(to), *options)
    assert code == 0, out
    first, second = read_lines(to)
    assert first["tokens"] == list(BOOK.tokens)
    assert (first["tags"], first["intent"]) == (list(BOOK.tags), "book")
    assert (set(second["tags"]), second["intent"]) == ({"O"}, "decline")


def test_offset_and_length_may_be_nested(tmp_path):
    slots = (
        "marks[].{name: kind.type, start: at.offset, end: sum([at.offset, at.length])}"
    )
    options = {"text": "body.words", "intent": "GOAL", "slots": slots}
    found = source(tmp_path / "a.jsonl", COUNTED, **options)
    assert list(found.utterances()) == [BOOK, said("no thanks", "decline")]
    with refused("the field goals .--intent.", InvalidData):
        source(tmp_path / "a.jsonl", COUNTED, **{**options, "intent": "goals"})
    with refused(r"values of --slots spans\[\].a in .* none in 2 records"):
        source(tmp_path / "a.jsonl", COUNTED, **{**options, "slots": "spans[].a"})


def test_labels_that_are_nested_are_named_with_their_path(tmp_path):
    rows = [{"text": row["user"]["text"], **row} for row in NESTED]
    survey = source(tmp_path / "a.jsonl", rows, slots="labels").survey
    (found,) = survey.overlooked.values()
    assert found.argument == "--intent annotation.intent.name"
    options = {"intent": "annotation.intent.name", "slots": "labels[].{name: slot}"}
    assert source(tmp_path / "a.jsonl", rows, **options).survey.overlooked == {}


@pytest.mark.parametrize("given", ["City", "CITY", "3"])
def test_a_column_is_named_in_any_case_or_by_number(tmp_path, given):
    table = "Text,Label,City\nto oslo,book,Oslo\nstop,cancel,Rome\n"
    found = source(tmp_path / "a.csv", table, intent=given)
    assert [each.intent for each in found.utterances()] == ["Oslo", "Rome"]
    assert dict(found.survey.read) == {("text", "Text"): 2, ("intent", "City"): 2}


CITY = said("fly to [city : New York] now")
TOKENS = [
    ("fly", "O"),
    ("to", "O"),
    ("New", "B-city"),
    ("York", "I-city"),
    ("now", "O"),
]
LUIS = {"entity": "trip", "startPos": 0, "endPos": 14}
INNER = {"entity": "city", "startPos": 7, "endPos": 14}
RIGHT = [
    (
        "numbered.conll",
        "".join(f"{n}\t{w}\tX\t{t}\n" for n, (w, t) in enumerate(TOKENS, start=1)),
        {},
        [CITY],
    ),
    *(
        (
            "a.jsonl",
            [
                {
                    "text": "fly to New York now",
                    "entities": [
                        {key: "B-city", "word": "New", "start": 7, "end": 10},
                        {key: "I-city", "word": "Yo", "start": 11, "end": 13},
                        {key: "I-city", "word": "##rk", "start": 13, "end": 15},
                    ],
                }
            ],
            {},
            [CITY],
        )
        for key in ("entity", "entity_group")
    ),
    (
        "a.jsonl",
        [{"text": "a", "options": [{"id": "x"}], "accept": ["x"], "answer": "accept"}],
        {},
        [said("a", "x")],
    ),
    (
        "a.json",
        {"train": [["a b", "x"]], "oos_val": [["c", "oos"]], "oos_test": [["d", "y"]]},
        {},
        [
            said("a b", "x"),
            said("c", "oos", part="validation"),
            said("d", "y", part="test"),
        ],
    ),
    (
        "a.jsonl",
        [{"tokens": ["to", "Rome"], "ner_tags": [0, 1], "label": 1}],
        {"names": "O,B-city"},
        [said("to [city : Rome]", "1")],
    ),
    (
        "a.csv",
        "sentence_id,words,labels\n0,to,O\n0,Rome,B-city\n1,stop,O\n2,a b,O\n",
        {},
        [said("to [city : Rome]"), said("stop"), None],
    ),
    (
        "a.csv",
        "sentence_id,text,tags\n7,to Rome,O B-city\n8,stop,O\n",
        {},
        [said("to [city : Rome]"), said("stop")],
    ),
    (
        "a.json",
        {"intents": [{"intent": "go", "examples": [{"text": "go home"}, "leave"]}]},
        {},
        [said("go home", "go"), said("leave", "go")],
    ),
    ("a.csv", "text,intent\rplay jazz,music\rstop,music\r", {}, [
        said("play jazz", "music"), said("stop", "music")]),
    (
        "a.csv",
        "Example,intent\nfly to [New York](city) now,go\n",
        {"text": "example", "marks": "brackets"},
        [said("fly to [city : New York] now", "go")],
    ),
    (
        "a.tsv",
        "text\tintent\nfly to <city>New York</city> now\tgo\nto <city>Rome\tgo\n",
        {"marks": "elements"},
        [said("fly to [city : New York] now", "go"), None],
    ),
    (
        "a.jsonl",
        [{"text": "天气怎么样 ok?", "slots": [["what", 0, 2, "天气"]]}],
        {"tokenize": "characters"},
        [said("[what : 天 气] 怎 么 样 ok ?")],
    ),
    (
        "a.jsonl",
        [
            {"text": "an editor, ok", "slots": [
                {"name": "what", "start": 5, "end": 5, "text": "editor"}]},
            {"text": "on USB-stick", "slots": [
                {"name": "what", "start": 8, "end": 8, "text": "USB-stick"}]},
        ],
        {"tokenize": "punctuation"},
        [said("an [what : editor] , ok"), said("on [what : USB-stick]")],
    ),
    (
        "a.json",
        {"utterances": [{"text": "fly to New York now", "entities": [
            {"category": "city", "offset": 7, "length": 8}]}]},
        {},
        [CITY],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "options", "expected"), RIGHT)
def test_what_people_have_is_read_right(tmp_path, name, content, options, expected):
    found = list(source(tmp_path / name, content, **options).utterances())
    for got, want in zip(found, expected, strict=True):
        assert isinstance(got, InvalidData) if want is None else got == want


def test_tasks_of_label_studio_are_read_or_refused(tmp_path):
    def task(*done):
        return {"data": {"text": "to Rome"}, "annotations": list(done)}

    goal = {"from_name": "goal", "value": {"choices": ["go"]}}
    city = {"value": {"start": 3, "end": 7, "text": "Rome", "labels": ["city"]}}
    left = {"was_cancelled": True, "result": [city]}
    chosen = source(tmp_path / "a.json", [task(left, {"result": [goal]})])
    assert list(chosen.utterances()) == [said("to Rome", "go")]
    assert not chosen.has_slots
    both = {"result": [goal, city]}
    found = source(tmp_path / "b.json", [task(both), task(both, both)])
    right, problem = found.utterances()
    assert right == said("to [city : Rome]", "go")
    assert "one annotation of the task in" in str(problem)


def test_an_object_with_data_is_no_text_in_pieces(tmp_path):
    row = {"text": "stop", "intent": "x", "data": [{"text": "a", "id": 1}]}
    rows = [row, {**row, "data": [{"text": "a"}]}, {**row, "examples": ["a", "b"]}]
    found = source(tmp_path / "a.jsonl", rows)
    assert list(found.utterances()) == [said("stop", "x")] * 3


def test_rows_of_tokens_are_refused_with_a_line_that_groups_them(
    tmp_path, monkeypatch, capsys
):
    import pandas

    monkeypatch.chdir(tmp_path)
    rows = [f"{'' if n else 'Sentence: 1'},{w},{t}" for n, (w, t) in enumerate(TOKENS)]
    table = "\n".join(["Nr,Word,Tag", *rows, "Sentence: 2,None,O"])
    (tmp_path / "a.csv").write_text(table)
    _, out = run(capsys, "data", "check", "a.csv")
    options = shlex.split(re.search(r"\(try (.*?)\)", out)[1])
    assert options == ["--text", "Word", "--tags", "Tag"]
    _, out = run(capsys, "data", "check", "a.csv", *options)
    assert "one word in each of 6 records with tags: the unit of privacy" in out
    line = re.search(r"`(pandas\..*)`", out)[1]
    # As it is copied, with the name of the column.
    eval(line.replace("COLUMN", "Nr"), {"pandas": pandas, "FILE": "a.csv"})
    found = open_source(
        tmp_path / "mine.jsonl", options=Options(text="Word", tags="Tag")
    )
    assert list(found.utterances()) == [CITY, said("None")]


def test_a_sheet_is_read_as_it_shows(tmp_path):
    import datetime

    import pandas as pd

    names = ["None", "null", "NA", True, 7, 2.0, datetime.date(2026, 1, 2), "greet"]
    rows = {"text": [f"say {n}" for n in range(8)], "intent": names}
    pd.DataFrame(rows).to_excel(tmp_path / "a.xlsx", index=False)
    found = open_source(tmp_path / "a.xlsx", options=Options()).utterances()
    assert [each.intent for each in found] == [
        *("None", "null", "NA", "TRUE", "7", "2", "2026-01-02", "greet")
    ]


def test_numbers_without_names_are_refused_with_the_option(tmp_path):
    rows = [{"tokens": ["to", "Rome"], "ner_tags": [0, 1]}]
    with refused(
        "got numbers, whose names the file lacks .--names O,B-city", InvalidData
    ):
        source(tmp_path / "a.jsonl", rows)


def test_entities_in_pieces_and_relations_of_brat_are_counted(tmp_path):
    (tmp_path / "1.txt").write_bytes("fly to Rome 😀 now\r\nto Oslo".encode())
    lines = ["T1\tcity 7 11\tRome", "T2\twhen 14 17\tnow", "T3\tcity 22 26\tOslo"]
    lines += ["T4\tx 0 3;7 11\tfly Rome", "R1\tNear Arg1:T1 Arg2:T2"]
    (tmp_path / "1.ann").write_text("\n".join(lines))
    found = open_source(tmp_path, options=Options(group="document_id"))
    text = "fly to [city : Rome] 😀 [when : now]"
    assert list(found.utterances()) == [
        said(text, group="1"),
        said("to [city : Oslo]", group="1"),
    ]
    notes = {"entities in pieces": 1, "lines without an entity": 1}
    assert found.survey.notes == notes


def test_numbers_are_no_words(tmp_path):
    rows = "".join(f"{n}\tword\tO\n" for n in range(1, 4))
    with refused(r"got 1, 2, 3 and so on in 1 of 1 records \(--text 2"):
        source(tmp_path / "a.conll", rows, text="1")


def test_rows_are_limited_like_bytes(tmp_path, monkeypatch):
    import pandas as pd

    monkeypatch.setattr(reading, "MOST_ROWS", 3)
    path = tmp_path / "a.parquet"
    pd.DataFrame({"text": ["a"] * 4, "intent": ["x"] * 4}).to_parquet(path)
    with refused("at most 3 rows in .*a.parquet, got 4"):
        open_source(path, options=Options())
    with refused("at most 3 records"):
        source(tmp_path / "a.jsonl", [{"text": "a"}] * 4)


def _fields(text, **more):
    return {"text": text, "intent": "x", **more}


_SPANS = [{"start": 0, "end": 3, "entity": "B-city", "word": "New"}]
DOUBTFUL = [
    (
        [_fields("play [jazz](what)")] * 2,
        r"\[value\]\(slot\) .*2 of 2.*--marks brackets",
    ),
    ([_fields("play <a>jazz</a>")] * 2, "<slot>value</slot> .*--marks elements"),
    ([_fields("play {what}")] * 2, "{slot} in them.*--marks braces"),
    ([_fields("play [what : jazz]")] * 2, "slot : value.*--marks colons"),
    ([_fields("天气怎么样天气怎么样")] * 2, "2 of 2 records; --tokenize characters"),
    ([_fields("New York", slots=_SPANS)], r"joined to whole slots \(1\)"),
    ([_fields("a b", tags=["B-B-city", "I-B-city"])], r"B- or I-, .*\(2\)"),
    (
        [_fields("fly to New York now", entities=[{**LUIS, "children": [INNER]}])],
        r"1 entities inside of others \(city\)",
    ),
    ([{"text": f"a {n}", "intent": f"a {n}"} for n in range(6)], "6 of 6 intents"),
    ([_fields("Play"), _fields("play"), _fields("stop")], "1 of 1 repeated texts"),
    (
        [_fields("a", meta={"intent": "y"}), _fields("b", meta={"intent": "z"})],
        "meta.intent looks like labels .*--intent meta.intent",
    ),
]


@pytest.mark.parametrize(("rows", "words"), DOUBTFUL)
def test_what_may_be_misread_is_a_warning(rows, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.jsonl"
    write_lines(path, rows)
    for command in ("check", "describe"):
        _, out = run(capsys, "data", command, str(path), "--json")
        assert any(re.search(words, each) for each in json.loads(out)["warnings"]), out
    many = [
        {**row, "text": f"{row['text']} {n}"} if "slots" not in row else row
        for n in range(60)
        for row in rows
    ]
    if "tags" in rows[0] or "repeated" in words or "intents" in words:
        return
    write_lines(path, many)
    code, out = run(capsys, "init", str(path), "--to", "mine", "--epsilon", "8")
    assert code == 0 or "expected at least" in out, out


@pytest.mark.parametrize(
    ("is_terminal", "more", "is_shown"),
    [(True, (), True), (True, ("--no-sample",), False), (False, (), False)],
)
def test_records_are_shown_on_a_terminal_alone(
    is_terminal, more, is_shown, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"Text": f"fly to Rome {n}", "goal": "go", "slots": [[7, 11, "city"]]}
        for n in range(90)
    ]
    write_lines(tmp_path / "a.jsonl", rows)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    for words in (("data", "check"), ("init", "--epsilon", "8", "--to", "mine")):
        given = (*words, "a.jsonl", "--intent", "goal", *more)
        code, out = run(capsys, *given)
        shown = "text (Text, slots): fly to [Rome : city] 2; intent (goal): go"
        assert code == 0, out
        assert (shown in " ".join(out.split())) == is_shown
        assert ("Rome" in out) == is_shown
