"""The contract of every file format of utterances. A new entry inherits these tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.shelves import DropIn
from trainables import catalogue
from trainables.data.bio import tags_of
from trainables.data.records import NO_INTENT, Utterance
from trainables.errors import InvalidData, InvalidInput
from trainables.file_formats import Options, open_source

NAMES = catalogue.names("file_formats")
_WORDS = st.text(st.characters(categories=("L", "M", "N", "P", "S")), min_size=1, max_size=8)
_LABELS = st.from_regex(r"[a-z]{1,4}[._]?[a-z0-9]{1,4}", fullmatch=True)
# What some form uses as a mark of its own, and may refuse in a text.
_MARKS = set("[](){}:|#\"'")


@st.composite
def utterances(draw: st.DrawFn, *, intents: bool, slots: bool, groups: bool) -> Utterance:
    tokens = tuple(draw(st.lists(_WORDS, min_size=1, max_size=6)))
    found, start = [], 0
    while slots and start < len(tokens):
        end = draw(st.integers(start + 1, len(tokens)))
        if draw(st.booleans()):
            found.append((draw(_LABELS), start, end))
        start = end
    return Utterance(
        tokens,
        tags_of(found, len(tokens)),
        draw(_LABELS) if intents else NO_INTENT,
        draw(st.sampled_from(["train", "validation", "test"])),
        draw(_LABELS) if groups else None,
    )


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[Utterance], bool]:
    """Some utterances, and whether they are annotated with slots."""
    intents = draw(st.booleans())
    slots = not intents or draw(st.booleans())
    one = utterances(intents=intents, slots=slots, groups=draw(st.booleans()))
    return draw(st.lists(one, min_size=1, max_size=6)), slots


def as_stored(utterance: Utterance, name: str) -> Utterance:
    """What the form can hold of an utterance."""
    lacks = catalogue.entry("file_formats", name).LACKS
    without = {"part": "train", "group": None}
    return replace(utterance, **{field: without[field] for field in lacks})


def write_corpus(folder: Path, name: str, corpus: list[Utterance], *, slots: bool) -> Path:
    path = folder / f"corpus{catalogue.entry('file_formats', name).SUFFIX}"
    catalogue.entry("file_formats", name).write(path, corpus, slots=slots)
    return path


def by_part(corpus: list[Utterance]) -> list[Utterance]:
    """Forms with a file a part keep the order within parts."""
    order = ["train", "validation", "test"]
    return sorted(corpus, key=lambda utterance: order.index(utterance.part))


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_shelf_has_the_forms_of_the_field() -> None:
    assert {
        *("json_lines", "json_list", "delimited", "conll", "bio_folder"),
        *("rasa_nlu", "hugging_face", "massive"),
    } <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(corpora())
def test_what_is_written_is_read_again(name: str, made: tuple[list[Utterance], bool]) -> None:
    corpus, slots = made
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = write_corpus(Path(folder), name, corpus, slots=slots)
        except InvalidData:
            no_intent = any(utterance.intent == NO_INTENT for utterance in corpus)
            marks = {sign for utterance in corpus for token in utterance.tokens for sign in token}
            assert no_intent or marks & _MARKS
            return
        source = open_source(path, options=Options())
        assert source.form == name
        assert by_part(list(source.utterances())) == by_part([as_stored(u, name) for u in corpus])
        assert source.has_intents == (corpus[0].intent != NO_INTENT)


def test_no_other_form_claims_what_it_writes(name: str, tmp_path: Path) -> None:
    corpus = [Utterance(("call", "ann"), ("O", "B-who"), "call")]
    path = write_corpus(tmp_path, name, corpus, slots=True)
    claims = [n for n in NAMES if catalogue.entry("file_formats", n).recognizes(path)]
    assert claims == [name]


def test_nothing_there_is_not_recognized(name: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for path in (tmp_path / "nothing", empty):
        assert not catalogue.entry("file_formats", name).recognizes(path)


def test_an_existing_file_is_not_overwritten(name: str, tmp_path: Path) -> None:
    corpus = [Utterance(("call", "ann"), ("O", "B-who"), "call")]
    write_corpus(tmp_path, name, corpus, slots=True)
    with pytest.raises(FileExistsError):
        write_corpus(tmp_path, name, corpus, slots=True)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(NAMES), st.binary(max_size=200))
def test_no_bytes_break_it(name: str, content: bytes) -> None:
    """Whatever a file holds, it is read or refused in one line that does not quote it."""
    entry = catalogue.entry("file_formats", name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"corpus{entry.SUFFIX}"
        path.write_bytes(b"secret" + content)
        try:
            entry.recognizes(path)
            found = list(open_source(path, options=Options(), form=name).utterances())
        except InvalidInput as problem:
            found = [problem]
        said = [str(each) for each in found if isinstance(each, InvalidInput)]
        assert not any("\n" in each or "secret" in each for each in said)


_SHOUTED = '''"""Intents alone, in capitals: INTENT TEXT."""
from trainables.data.records import Utterance
from trainables.file_formats._record import Record

LACKS = frozenset({"part", "group"})
SUFFIX = ".shouted"


def recognizes(path):
    return path.suffix == SUFFIX


def read(path, *, options):
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        intent, _, text = line.partition(" ")
        yield Record(where=f"{path} line {number}", text=text, intents=(intent,))


def write(path, utterances, *, slots):
    path.write_text("".join(f"{u.intent} {' '.join(u.tokens)}\\n" for u in utterances))
'''


def test_a_new_file_is_a_form_of_its_own(tmp_path: Path, drop_in: DropIn) -> None:
    drop_in("file_formats", "shouted", _SHOUTED)
    (tmp_path / "a.shouted").write_text("CALL call ann\nPLAY play it\n")
    source = open_source(tmp_path / "a.shouted", options=Options())
    assert source.form == "shouted"
    assert [u.intent for u in _good(source.utterances())] == ["CALL", "PLAY"]
    assert not source.has_slots


def _good(found: Iterator[Utterance | InvalidData]) -> Iterator[Utterance]:
    for each in found:
        assert isinstance(each, Utterance)
        yield each
