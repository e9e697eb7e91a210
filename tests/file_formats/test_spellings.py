"""Alternative names of fields, units of spans, and one-line errors for invalid records."""

import json
import re

import pytest

from tests.lines import write_lines
from tests.refusals import refused
from tests.utterances import said
from trainables.data.records import Utterance
from trainables.errors import InvalidData
from trainables.file_formats import Options, open_source

SECRET = "xylophone"  # stands for private text: no message may contain it
CALL = said("call [who : ann lee]", "phone")


def lines(folder, *objects):
    return write_lines(folder / "mine.jsonl", objects)


def only(path, **options):
    return list(open_source(path, options=Options(**options)).utterances())


@pytest.mark.parametrize(
    "fields",
    [
        {"tokens": ["call", "ann", "lee"], "tags": ["O", "B-who", "I-who"], "intent": "phone"},
        {"words": ["call", "ann", "lee"], "bio_tags": "O B-who I-who", "label": "phone"},
        {"text": "call ann lee", "slots": [["who", 1, 3]], "intent": "phone"},
        {"utterance": "call ann lee", "entities": [[5, 12, "who"]], "intents": ["phone"]},
        {
            "sentence": "call  ann lee",
            "entities": [{"start": 6, "end": 13, "entity": "who", "value": "Ann Lee"}],
            "category": " phone ",
        },
        {"query": "call ann lee", "spans": [{"label": "who", "start": 5, "end": 12}]}
        | {"intent": "phone"},
    ],
)
def test_spellings_of_one_record(tmp_path, fields):
    assert only(lines(tmp_path, fields)) == [CALL]


def test_own_names_of_fields_are_options(tmp_path):
    path = lines(tmp_path, {"said": "call ann lee", "what": "phone", "where": [["who", 1, 3]]})
    assert only(path, text="said", intent="what", slots="where") == [CALL]
    with refused(r"the field meaning \(--intent\) in .* line 1", InvalidData):
        only(path, text="said", intent="meaning")


def test_ambiguous_spans_need_an_option(tmp_path):
    path = lines(tmp_path, {"text": "a b c d", "slots": [["x", 0, 1]]})
    with refused("--spans tokens or --spans characters: both readings"):
        open_source(path, options=Options())
    (tokens,) = only(path, spans="tokens")
    (characters,) = only(path, spans="characters")
    assert tokens == characters == said("[x : a] b c d")


_EMOJI = "😀😀 fly to Rome"


@pytest.mark.parametrize(
    ("text", "start", "end", "value", "unit"),
    [
        (_EMOJI, 10, 14, "Rome", "characters"),
        (_EMOJI, 12, 16, "Rome", "utf-16"),
        (_EMOJI, 16, 20, "Rome", "bytes"),
        (_EMOJI, 3, 4, "Rome", "tokens"),
        ("from main station", 1, 2, "main station", "last-token"),
        ("off to NYC", 7, 10, "new york", "characters"),
    ],
)
def test_the_unit_of_spans_is_the_one_that_gives_their_text(
    tmp_path, text, start, end, value, unit
):
    entity = {"start": start, "end": end, "value": value, "entity": "city"}
    source = open_source(lines(tmp_path, {"text": text, "entities": [entity]}), options=Options())
    (found,) = source.utterances()
    assert source.unit == unit
    assert found.tags[-1][2:] == "city"


def test_a_span_whose_text_is_elsewhere_is_a_problem_of_its_line(tmp_path):
    right = {"start": 3, "end": 7, "value": "Rome", "entity": "city"}
    rows = [{"text": "to Rome now", "entities": [right, {**right, "value": "Roma"}]}] * 2
    rows.append({"text": f"Rome {SECRET} or Oslo", "entities": [{**right, "end": 9}]})
    source = open_source(lines(tmp_path, *rows), options=Options())
    assert source.survey.notes == {}, "it is no synonym"
    (one, _, problem) = source.utterances()
    assert one == said("to [city : Rome] now")
    assert re.search(r"entities in .* line 3 .* elsewhere .*--spans", str(problem))


def test_a_span_in_other_units_without_its_text_is_a_problem_of_its_line(tmp_path):
    rows = [{"text": _EMOJI, "slots": [[12, 16, "city"]]}, {"text": "go", "slots": [[0, 2, "go"]]}]
    path = lines(tmp_path, *rows)
    problem, _ = only(path)
    assert re.search(r"line 1 .*--spans characters or --spans utf-16", str(problem))
    found, _ = only(path, spans="utf-16")
    assert found.tags == ("O", "O", "O", "B-city")


def test_text_without_spaces_needs_tokens(tmp_path):
    rows = [{"text": "下个星期五在南京", "slots": [[0, 5, "date"]]}, {"tokens": ["下个", "南京"]}]
    problem, found = only(lines(tmp_path, *rows))
    assert re.search("line 1 .*field tokens", str(problem))
    assert isinstance(found, Utterance)


def test_signs_at_words(tmp_path):
    path = lines(
        tmp_path, {"text": "Hi Maria!", "entities": [{"start": 3, "end": 8, "name": "who"}]}
    )
    source = open_source(path, options=Options())
    assert list(source.utterances()) == [said("Hi [who : Maria!]")]
    assert source.adjusted["extended"] == 1
    finer = open_source(path, options=Options(tokenize="punctuation"))
    assert not finer.adjusted
    assert list(finer.utterances()) == [said("Hi [who : Maria] !")]


@pytest.mark.parametrize(
    "labels", [{"slots": [["who", 1, 3]]}, {"tags": ["O", "B-who", "I-who", "O"]}]
)
def test_records_with_and_without_slots_are_cut_alike(tmp_path, labels):
    """Else a sign that stands alone says that there is no slot, and an exported model, which cuts
    every text like that, is given other words than it was measured on.
    """
    path = lines(tmp_path, {"text": "call ann o'lee, now"} | labels, {"text": "stop, now"})
    first, second = only(path, spans="tokens", tokenize="punctuation")
    assert first == said("call [who : ann o'lee ,] now")
    assert second == said("stop , now")


def test_names_fit_on_a_line_of_tags(tmp_path):
    """A tag with a space would be two in the files that list them."""
    path = lines(
        tmp_path,
        {"tokens": ["call", "ann"], "tags": ["O", "B-first name"], "intent": "ring\nup"},
        {"tokens": ["ann"], "slots": [["first  name", 0, 1]], "intent": "ring up "},
    )
    first, second = only(path, spans="tokens")
    assert first == said("call [first_name : ann]", "ring up")
    assert second == said("[first_name : ann]", "ring up")


def test_several_intents_are_refused_with_what_to_do(tmp_path):
    path = lines(tmp_path, {"text": "a", "intent": ["stay", "go"]}, {"text": "b", "intent": "go"})
    said, other = only(path)
    assert "expected one intent in " in str(said)
    assert "got 2 in intent (join the names of several to one" in str(said)
    assert other.intent == "go"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"text": SECRET, "tags": ["O", "O"]},
            "expected 1 tags in .* line 2, one per token, got 2",
        ),
        ({"text": SECRET, "tags": [SECRET]}, "O, B-name or I-name in .* line 2, tag 1"),
        ({"text": SECRET, "slots": [["x", 0, 2]]}, "0 <= start < end <= 1 tokens"),
        ({"text": SECRET, "slots": [["x", 0]]}, r"slots in .* line 2 as \[name, start, end\]"),
        ({"text": SECRET, "slots": [[SECRET, True, 1]]}, "with a name and whole numbers"),
        ({"text": f"{SECRET} b", "slots": [["x", 0, 2], ["y", 1, 2]]}, "share no token"),
        ({"text": SECRET, "part": SECRET}, "part in .* line 2 to be one of train, dev"),
        ({"text": SECRET, "intent": True}, "intent in .* line 2 to be a name"),
        ({"text": SECRET, "group": [SECRET]}, "group in .* line 2 to be a name"),
        ({"text": 5}, "text in .* line 2 to be text"),
        ({"text": " "}, "at least one token in .* line 2"),
        ({"tokens": [f"{SECRET} x"]}, "tokens without white space in .* line 2"),
        ({"said": SECRET}, "a field for the words in .* line 2"),
        ([SECRET], "a JSON object in .* line 2"),
    ],
)
def test_a_damaged_record_is_named_by_file_and_line(tmp_path, fields, message):
    sound = {"text": "call ann", "slots": [["who", 1, 2]], "intent": "x"}
    if isinstance(fields, dict):
        fields = {"intent": "x", **fields}
    first, problem = only(lines(tmp_path, sound, fields), spans="tokens")
    assert isinstance(first, Utterance)
    assert isinstance(problem, InvalidData)
    assert problem.args[0].count("\n") == 0
    assert SECRET not in str(problem)
    assert re.search(message, str(problem)), str(problem)


def test_an_intent_that_one_record_lacks(tmp_path):
    found = only(lines(tmp_path, {"text": "a", "intent": "x"}, {"text": "b"}))
    assert "expected an intent in" in str(found[1])


# ---- a JSON list


def test_a_json_list_has_the_fields_of_json_lines(tmp_path):
    path = tmp_path / "a.json"
    fields = {"text": "call ann lee", "label": "phone", "entities": [["who", 1, 3]]}
    path.write_text(json.dumps([fields, {"label": SECRET}, [SECRET]], indent=2))
    found, nameless, no_object = only(path, spans="tokens")
    assert found == CALL
    assert str(nameless).startswith(f"expected a field for the words in {path} object 2")
    assert str(no_object) == f"expected a JSON object in {path} object 3, got a list"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f'[{{"text": "{SECRET}"}}\n{{"text": "b"}}]', "expected JSON in .*a.json, line 2"),
        ("[]", "expected utterances in .*a.json, got an empty json file"),
    ],
)
def test_a_damaged_or_empty_json_list(tmp_path, content, message):
    path = tmp_path / "a.json"
    path.write_text(content)
    with refused(message, hides=SECRET):
        only(path)


# ---- CSV


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "id,text,intent,tags\n7,call ann lee,phone,O B-who I-who\n"),
        ("a.csv", 'Text;Label;Slots\ncall ann lee;phone;"[[""who"", 1, 3]]"\n'),
        ("a.tsv", "utterance\tintent\tbio\ncall ann lee\tphone\tO B-who I-who\n"),
    ],
)
def test_columns(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    assert only(path) == [CALL]


def test_columns_by_number_and_without_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"{SECRET},9,phone\n")
    with refused("--text COLUMN", hides=SECRET):
        only(path)
    with refused("--header or --no-header", hides=SECRET):
        only(path, text="1", intent="3")
    (found,) = only(path, text="1", intent="3", header=False)
    assert found == Utterance((SECRET,), ("O",), "phone")
    with refused("--intent to be a column's name or its number from 1"):
        only(path, text="1", intent="4", header=False)


def test_a_row_of_another_width(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f'text,intent\n"a\nb",x\n{SECRET},y,z\n')
    first, problem = only(path)
    assert first == said("a b", "x")
    assert str(problem) == f"expected 2 columns in {path} line 4, got 3"


def test_what_is_not_there(tmp_path):
    with refused("got nothing there"):
        only(tmp_path / "b.csv")
