"""Any document is read or refused in time proportional to its length."""

import contextlib
import io
import json
import math
import string
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.refusals import refused
from trainables.errors import InvalidData, one_line, quote, words_of
from trainables.io.documents import (
    MAX_DEPTH,
    DocumentProblem,
    format_yaml,
    parse_json,
    parse_yaml,
)
from trainables.io.files import (
    file_text,
    line_groups,
    read_json,
    read_written_json,
    read_yaml,
    text_lines,
)

WORDS = st.text(alphabet=string.ascii_letters + string.digits + " -_.:#é", max_size=12)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**30), max_value=10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4)
    ),
    max_leaves=20,
)
BAD_YAML = {
    "an alias": (
        "a: &a {x: 1}\nb: *a",
        "line 2: expected the value itself, got the alias",
    ),
    "an alias in itself": ("&a [*a]", "got the alias"),
    "an unknown alias": ("a: *b", "got the alias"),
    "deep flow lists": ("[" * 200_000, f"at most {MAX_DEPTH} lists"),
    "deep flow mappings": ("{a: " * 100_000, f"at most {MAX_DEPTH} lists"),
    "deep block lists": ("- " * 100_000 + "1", f"at most {MAX_DEPTH} lists"),
    "an integer of 5,000 digits": ("a: " + "9" * 5_000, "at most 40 digits"),
    "a leading zero": ("a: 1\nb: 0x1\nc: 010", "leading zero, got '010'"),
    "a long hexadecimal number": ("a: 0x" + "f" * 5_000, "at most 40 digits"),
    "a number that no float holds": ("a: 1e400", "numbers that a float can hold"),
    "no number": ("a: .nan", "finite numbers that a float can hold, got nan"),
    "infinity": ("a: -.inf", "finite numbers"),
    "a key twice": ("a: 1\nb: 2\na: 3", "line 3: the key a comes twice"),
    "a key twice, deep": ("x:\n  a: 1\n  a: 3", "line 3: the key a comes twice"),
    "a number as a key": ("1: 2", "text keys, got '1'"),
    "a word for true as a key": ("on: 2", "text keys, got 'on'"),
    "a list as a key": ("[1]: 2", "text keys"),
    "NUL": ('a: "\\0"', "text without NUL"),
    "half of a surrogate pair": (
        'a: "\\ud800"',
        "not readable|surrogate|invalid Unicode",
    ),
    "a tag of Python": ("a: !!python/object/apply:os.system [ls]", "got a tag"),
    "a tag of bytes": ("a: !!binary aGk=", "got a tag"),
    "a set": ("a: !!set {x, y}", "got a tag"),
    "a tag that is not so": ("a: !!int 3", "got a tag"),
    "two documents": ("a: 1\n---\nb: 2", "line 2: expected a single document"),
    "a merge of a number": ("a: 1\n<<: {b: 3}", "line 2: expected text keys, got '<<'"),
    "cut in a list": ("a: [1,", "line 1|line 2"),
    "a control character": ("a: \x01", "allowed"),
    "a key without end": ("a" * 2_000 + ": 1", "line 1"),
}
BAD_JSON = {
    "deep lists": ("[" * 200_000, f"at most {MAX_DEPTH} lists"),
    "depth that Python reads": ("[" * 200 + "]" * 200, f"at most {MAX_DEPTH} lists"),
    "depth in objects": ('{"a":' * 200 + "1" + "}" * 200, f"at most {MAX_DEPTH} lists"),
    "an integer of 5,000 digits": ('{"a": ' + "9" * 5_000 + "}", "at most 40 digits"),
    "a number that no float holds": ("[1e400]", "numbers that a float can hold"),
    "no number": ("[NaN]", "finite numbers that a float can hold, got nan"),
    "infinity": ("[-Infinity]", "finite numbers that a float can hold, got -inf"),
    "a key twice": ('{"a": 1, "a": 2}', "each key of an object once"),
    "NUL": ('["\\u0000"]', "text without NUL"),
    "half of a surrogate pair": ('{"\\ud800": 1}', "surrogate"),
    "two documents": ("1 2", "expected JSON"),
    "cut": ('{"a": [1', "expected JSON"),
    "empty": ("", "expected JSON"),
}


def refusal(tmp_path, text, reader):
    """The one line of what is wrong, which came at once and in little memory."""
    path = tmp_path / "document"
    path.write_text(text)
    tracemalloc.start()
    begun = time.process_time()
    try:
        with pytest.raises(InvalidData) as caught:
            reader(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.process_time() - begun < 5
    assert peak < 100_000_000
    assert len(str(caught.value)) < 1_000
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("reader", "text", "words"),
    [
        pytest.param(reader, *case, id=name)
        for reader, cases in ((read_yaml, BAD_YAML), (read_json, BAD_JSON))
        for name, case in cases.items()
    ],
)
def test_a_bad_document_is_one_line_at_once(reader, text, words, tmp_path):
    message = refusal(tmp_path, text, reader)
    assert any(each in message for each in words.split("|")), message


def test_a_word_of_a_command_line_that_is_no_utf8_is_no_yaml():
    with pytest.raises(DocumentProblem, match="halves of surrogate pairs"):
        parse_yaml("a: \udcff")


def test_what_is_no_file_of_text_is_named(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes").write_bytes(b"a\n\nb\xff\n\xfe")
    (tmp_path / "nul").write_bytes(b"a\0b")
    (tmp_path / "long").write_bytes(b"a" * 2_000)
    for name, words in {
        "folder": "to be a file",
        "bytes": r"expected UTF-8 in .* line 3 \(if it is Latin-1, `iconv -f LATIN1 -t"
        r" UTF-8 FILE",
        "nul": "without NUL",
        "long": "at most 1000 bytes",
        "missing": "No such file",
        "a\0b": "without NUL",
        "x" * 5_000: "File name too long",
    }.items():
        with refused(words, InvalidData):
            file_text(tmp_path / name, max_bytes=1_000)
    with refused("to be a file", InvalidData):
        file_text(Path("/dev/zero"))


@settings(max_examples=300, deadline=None)
@given(PLAIN | st.from_regex(r"[-+.]?[0-9_.oxbe]{1,6}", fullmatch=True))
def test_plain_data_is_read_as_it_was_written(value):
    assert parse_json(json.dumps(value)) == value
    assert parse_yaml(format_yaml(value)) == value


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=200)
    | st.text(alphabet="{}[]:,&*-<!|>\"' \n\\0ax", max_size=60)
    | st.text(alphabet="0x_b1o.e+-", max_size=6)
)
def test_any_text_is_read_or_refused(text):
    for reader in (parse_json, parse_yaml):
        with contextlib.suppress(DocumentProblem):
            reader(text)


def test_what_is_one_object_is_written_twice():
    shared = {"x": [1]}
    assert parse_yaml(format_yaml([shared, shared])) == [shared, shared]


def test_large_values_are_cut_where_they_are_shown():
    deep = []
    for _ in range(500):
        deep = [deep] * 3  # 3**500 values
    for value in (deep, 10**6_000, "x" * 10**7, {str(i): i for i in range(10**5)}):
        assert len(quote(value)) <= 120
    assert len(one_line("x " * 10**6)) < 2_100


class Trickle(io.BytesIO):
    """A pipe that somebody writes into three bytes at a time."""

    def read1(self, size=-1, /):
        return super().read1(3)


def test_lines_come_one_by_one_and_a_bad_one_is_itself_alone():
    content = b"\xef\xbb\xbfone\r\n\n" + b"x" * 50 + b"\n\xff\na\0b\nlast"
    for file in (io.BytesIO(content), Trickle(content)):
        found = [(number, str(line)) for number, line in text_lines(file, max_bytes=20)]
        assert found == [
            (1, "one"),
            (2, ""),
            (3, "expected lines of at most 20 bytes"),
            (4, "expected UTF-8"),
            (5, "expected text without NUL"),
            (6, "last"),
        ]
    assert [len(group) for group in line_groups(Trickle(b"a\nb\nc\n"))] == [1, 2]


@pytest.mark.parametrize("length", [19, 20, 21, 100])
def test_a_line_without_its_end_is_bounded_too(length):
    (only,) = text_lines(Trickle(b"x" * length), max_bytes=20)
    assert isinstance(only[1], DocumentProblem) == (length > 20)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "9" * 5_000, "\0", "\ud800"])
def test_a_damaged_file_of_a_program_is_one_problem(text, tmp_path):
    path = tmp_path / "state.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with refused(r"state\.json", InvalidData):
        read_written_json(path)
    with refused("to be a file", InvalidData):
        read_written_json(tmp_path)
    path.write_text('{"epsilon": Infinity}')
    assert read_written_json(path) == {"epsilon": math.inf}


SAID = st.sampled_from(["", " \n", "no answer", "\nfirst\nsecond", "z0"])
ERRORS = st.recursive(
    st.builds(
        lambda kind, said: kind(said),
        st.sampled_from([ValueError, OSError, KeyError]),
        SAID,
    )
    | st.sampled_from(
        [OSError(), OSError(28, None), TimeoutError(), OSError(2, "gone", "a", 0, "b")]
    ),
    lambda inner: st.builds(
        ExceptionGroup, SAID, st.lists(inner, min_size=1, max_size=3)
    ),
    max_leaves=5,
)


@given(ERRORS, ERRORS, st.booleans())
def test_an_error_says_more_than_its_type(error, cause, is_hidden):
    error.__cause__, error.__context__, error.__suppress_context__ = (
        None,
        cause,
        is_hidden,
    )
    said = words_of(error)
    assert one_line(said).isprintable()
    assert len(said.split()) > 1 or said == "z0"
    if isinstance(error, OSError | ValueError) and not str(error).strip():
        assert (words_of(cause) == said) or is_hidden or "no message" in words_of(cause)


def test_an_error_names_its_files_and_its_members_and_ends():
    assert words_of(OSError(2, "gone", "a", 0, "b")) == "gone (a, b)"
    group = ExceptionGroup("two", [OSError(28, None), ConnectionError("no answer")])
    assert words_of(group) == "two: No space left on device; no answer"
    circle = TimeoutError()
    circle.__cause__ = TimeoutError()
    circle.__cause__.__cause__ = circle
    assert words_of(circle) == "TimeoutError, which has no message"


@pytest.mark.parametrize(
    "word", ["0x_", "0b_", "0o__", "._", "-._", "1.2.3", "1__0", "0b1f" * 16, "0xno"]
)
def test_a_word_that_only_begins_as_a_number_is_text(word):
    assert parse_yaml(word) == word
