"""Files of common formats as other tools write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainables.data.records import Utterance
from trainables.errors import InvalidData, InvalidInput
from trainables.file_formats import Options, open_source
from trainables.files import TO_UTF_8, without_problems

SECRET = "xylophone"
CALL = Utterance(("call", "ann", "lee"), ("O", "B-who", "I-who"), "phone")


def read(path: Path, **options: Any) -> list[Utterance | InvalidData]:
    return list(open_source(path, options=Options(**options)).utterances())


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.csv", "text,intent\nhi,greet\ncafé xylophone,order\n", 3),
        ("a.csv", "text,catégorie\nxylophone,order\n", 1),
        ("a.jsonl", '{"text": "café xylophone", "intent": "order"}\n', 1),
        ("a.json", '[{"text": "hi"},\n{"text": "café xylophone"}]\n', 2),
        ("a.json", '[{"text": "café xylophone"}]\n', 1),
        ("a.yml", "nlu:\n- intent: order\n  examples: |\n    - café xylophone\n", 4),
        ("a.conll", "café O\nxylophone O\n", 1),
    ],
)
def test_latin_1_is_refused_with_the_line_and_how_to_convert_it(
    name: str, content: str, line: int, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="latin-1")
    with pytest.raises(InvalidData) as refused:
        list(without_problems(open_source(path, options=Options()).utterances()))
    assert str(refused.value) == f"expected UTF-8 in {path} line {line}{TO_UTF_8}"
    path.write_text(content)
    assert all(isinstance(found, Utterance) for found in read(path))


@pytest.mark.parametrize("content", [bytes(range(256)), "text: café".encode("utf-16")])
def test_what_is_no_text_is_not_advised_to_be_converted(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"one of the formats .* got none"):
        open_source(path, options=Options())


# ---- CoNLL

_CONLL = """-DOCSTART- -X- O O

# id 7 domain=en
call NN B-VP O
ann NNP B-NP B-who
lee NNP I-NP I-who
"""


def test_conll_with_more_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(_CONLL)
    assert read(path) == [Utterance(CALL.tokens, CALL.tags, "")]
    (by_phrase,) = read(path, tags="3")
    assert isinstance(by_phrase, Utterance)
    assert by_phrase.tags == ("B-VP", "B-NP", "I-NP")
    with pytest.raises(InvalidInput, match="--tags to be a column's number from 1"):
        read(path, tags="who")


def test_a_hash_may_be_a_token(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("# intent: phone\ncall O\n# O\n7 B-who\n")
    assert read(path) == [Utterance(("call", "#", "7"), ("O", "O", "B-who"), "phone")]


def test_a_damaged_conll_record_is_named_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text(f"call O\n\n{SECRET} O\n{SECRET}\n\nann {SECRET}\n")
    first, uneven, bad = read(path)
    assert isinstance(first, Utterance)
    assert str(uneven).endswith(f"{path} line 3")
    assert "B-name or I-name" in str(bad)
    assert SECRET not in f"{uneven}{bad}"


def test_a_conll_record_with_a_line_that_is_no_text_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes(b"call O\n\xff\xfe B-who\nlee I-who\n\nbye O\n\nhi O\n\xff\n")
    *found, last = read(path)
    assert found[1] == Utterance(("bye",), ("O",), "")
    problems = [f"expected UTF-8 in {path} line 2{TO_UTF_8}", f"expected UTF-8 in {path} line 8"]
    assert [str(found[0]), str(last)] == problems, "how to convert the file is said once"
    assert len(found) == 2


@pytest.mark.parametrize("name", ["O", "B-12", "I-who"])
def test_a_conll_comment_may_end_like_a_tag(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.conll"
    path.write_text(f"# intent: {name}\n# group: {name}\ncall O\n")
    assert read(path) == [Utterance(("call",), ("O",), name, group=name)]


# ---- BIO folder


def test_a_folder_without_labels_or_tags(tmp_path: Path) -> None:
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
    with pytest.raises(InvalidData, match=r"as many lines in .*label as in the files beside it"):
        read(tmp_path / "intents")


# ---- Rasa NLU

_RASA = """
version: "3.1"
nlu:
- intent: phone
  examples: |
    - call [ann lee](who)
    - call [ann lee]{"entity": "who", "role": "to"} now
    - ring [ann](who:Ann Lee)!
- synonym: ann
  examples: |
    - annie
- intent: stop
  examples:
  - text: |
      stop it
"""


def test_rasa(tmp_path: Path) -> None:
    path = tmp_path / "nlu.yml"
    path.write_text(_RASA)
    assert read(path, tokenize="punctuation") == [
        CALL,
        Utterance(("call", "ann", "lee", "now"), ("O", "B-who.to", "I-who.to", "O"), "phone"),
        Utterance(("ring", "ann", "!"), ("O", "B-who", "O"), "phone"),
        Utterance(("stop", "it"), ("O", "O"), "stop"),
    ]
    (tmp_path / "more.yml").write_text("nlu:\n- intent: go\n  examples: |\n    - go\n")
    (tmp_path / "rules.yml").write_text("rules: []\n")
    assert len(read(tmp_path)) == 5


def test_a_damaged_rasa_file_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "nlu.yml"
    path.write_text(f'nlu:\n- intent: x\n  examples: [0123, "{SECRET}]\n')
    with pytest.raises(InvalidData, match=r"expected YAML in .*nlu.yml, line \d") as caught:
        read(path)
    assert SECRET not in str(caught.value)


# ---- Hugging Face


def arrow(folder: Path, columns: dict[str, Any], features: dict[str, Any]) -> Path:
    import pyarrow

    folder.mkdir()
    table = pyarrow.table(columns)
    with (
        pyarrow.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as file,
        pyarrow.ipc.new_stream(file, table.schema) as out,
    ):
        out.write_table(table)
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    return folder


@pytest.mark.parametrize("sequence", ["Sequence", "List", "a list"])
def test_class_labels_have_their_names(tmp_path: Path, sequence: str) -> None:
    label = {"names": ["O", "B-who", "I-who"], "_type": "ClassLabel"}
    tags: Any = [label] if sequence == "a list" else {"feature": label, "_type": sequence}
    features = {"label": {"names": ["phone", "stop"], "_type": "ClassLabel"}, "ner_tags": tags}
    columns = {"tokens": [list(CALL.tokens)], "ner_tags": [[0, 1, 2]], "label": [0]}
    assert read(arrow(tmp_path / "a", columns, features)) == [CALL]


def test_the_splits_of_a_data_set_are_its_parts(tmp_path: Path) -> None:
    arrow(tmp_path / "train", {"text": ["a"], "intent": ["x"]}, {})
    arrow(tmp_path / "test", {"text": ["b"], "intent": ["x"]}, {})
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    found = read(tmp_path)
    assert [each.part for each in found if isinstance(each, Utterance)] == ["train", "test"]
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["../other"]}')
    with pytest.raises(InvalidData, match="expected the names of splits"):
        read(tmp_path)


def test_a_damaged_arrow_file_is_one_line(tmp_path: Path) -> None:
    folder = arrow(tmp_path / "a", {"text": [SECRET], "intent": ["x"]}, {})
    file = folder / "data-00000-of-00001.arrow"
    file.write_bytes(file.read_bytes()[:40] + SECRET.encode())
    with pytest.raises(InvalidData, match="an Arrow stream in") as caught:
        read(folder)
    assert SECRET not in str(caught.value)


# ---- MASSIVE


def test_massive(tmp_path: Path) -> None:
    path = tmp_path / "en-US.jsonl"
    fields = {
        **{"id": "1", "locale": "en-US", "partition": "dev", "scenario": "alarm"},
        **{"intent": "alarm_set", "utt": "wake me at nine am, ok", "worker_id": "1"},
        "annot_utt": "wake me at [time : nine am], ok",
    }
    path.write_text(json.dumps(fields) + "\n")
    (found,) = read(path)
    assert isinstance(found, Utterance)
    assert found.tokens == ("wake", "me", "at", "nine", "am", ",", "ok")
    assert found.tags == ("O", "O", "O", "B-time", "I-time", "O", "O")
    assert (found.intent, found.part, found.group) == ("alarm_set", "validation", None)


@pytest.mark.parametrize("mark", ["[time : ]", "[ : nine]", "[: nine]"])
def test_a_mark_without_a_name_or_a_value_is_no_slot_that_is_lost(
    tmp_path: Path, mark: str
) -> None:
    path = tmp_path / "en-US.jsonl"
    texts = (f"{SECRET} at {mark} ok", "ok")
    path.write_text("".join(json.dumps({"annot_utt": text}) + "\n" for text in texts))
    problem, whole = read(path)
    assert isinstance(whole, Utterance)
    assert "line 1" in str(problem)
    assert SECRET not in str(problem)
