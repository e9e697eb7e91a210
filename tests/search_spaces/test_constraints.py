"""Constraints are arithmetic over names and nothing else: no call, attribute or text
trick.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.constraints import holds, names

VALUES = {
    "engine": "dp_sgd",
    "privacy": {"max_grad_norm": 0.5, "delta": None},
    "epochs": 30,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("privacy.max_grad_norm <= 1", True),
        ("0 < privacy.max_grad_norm < 0.5", False),
        ("engine in ['sgd', 'dp_sgd'] and not epochs > 30", True),
        ("(1 if engine == 'sgd' else 2) * epochs == 60", True),
        ("privacy.delta is None", True),
        ("log10(max(epochs, 100)) == 2", True),
        ("-epochs + 31 == 1", True),
        ("epochs % 4 == 2 or missing.name", True),
    ],
)
def test_an_expression_has_its_value_in_python(text, expected):
    assert holds(text, VALUES) is expected


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_comparisons_agree_with_python(left, right):
    values = {"a": {"b": left}, "c": right}
    assert holds("a.b + 1 <= c or a.b == c", values) == (
        left + 1 <= right or left == right
    )


def test_the_names_of_an_expression_are_known_without_values():
    assert names("min(a.b, 2) < c and 'd' != e.f.g") == {"a.b", "c", "e.f.g"}
    assert names("1 < 2") == frozenset()
