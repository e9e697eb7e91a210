import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.errors import InvalidInput
from trainables.parse.lispress import LispressError, read, write

DEPTH = 10_000
_symbols = st.from_regex(r"[A-Za-z?=~&_.:][A-Za-z0-9?=~&_.:\[\]-]{0,8}", fullmatch=True)
_strings = st.text(max_size=8).map(
    lambda text: '"' + text.replace("\\", "").replace('"', "") + '"'
)
_trees = st.recursive(
    _symbols | _strings,
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple)
        | st.tuples(st.just("^"), inner, inner)
        | st.tuples(st.just("#"), inner)
    ),
    max_leaves=20,
)


@given(_trees)
def test_what_is_written_is_read_again(tree):
    assert read(write(tree)) == tree


@given(st.text(alphabet='() "\\^#aL1.:', max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        found = read(text)
    except LispressError:
        return
    assert read(write(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "(f",
        "f)",
        "(f))",
        '(f "a)',
        "f g",
        "^T",
        "(^T)",
        "#",
        "(f \\",
        ")",
        "(f) (g)",
    ],
)
def test_malformed_texts_are_refused_in_one_line(text):
    with pytest.raises(LispressError) as refused:
        read(text)
    assert "\n" not in str(refused.value)
    assert isinstance(refused.value, InvalidInput)


def test_a_refusal_never_quotes_the_program():
    with pytest.raises(LispressError) as refused:
        read('(Yield "my secret meeting"')
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "(f " * DEPTH + '"a"' + ")" * DEPTH,
        "(" * DEPTH + ")" * DEPTH,
        "^T " * DEPTH + "x",
        "#" * DEPTH + "x",
        "(" * DEPTH,
        ")" * DEPTH,
        '"' + '\\"' * DEPTH,
        "\\" * (DEPTH + 1),
        "(f :a " * DEPTH + "1" + ")" * DEPTH,
    ],
)
def test_depth_costs_neither_stack_nor_time(text):
    start = time.process_time()
    with contextlib.suppress(LispressError):
        assert write(read(write(read(text)))) == write(read(text))
    assert time.process_time() - start < 20  # about 0.1 s on an idle core
