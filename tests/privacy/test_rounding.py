"""A printed epsilon is never below the true one and hardly above; a lower bound never
above.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.dp.accounting.rounding import format_epsilon, format_lower_bound


@pytest.mark.parametrize(
    ("epsilon", "printed"),
    [
        (3.0005, "3.001"),
        (3.0, "3"),
        (2.9999999, "3"),
        (9.9991, "10"),
        (95.17301, "95.18"),
        (100.0, "100"),
        (581.0, "581"),
        (99999.0, "1e+05"),
        (1.2e26, "1.2e+26"),
        (1e-5, "1e-05"),
        (0.1, "0.1"),  # though the float is a little above
        (0.1 + 0.2, "0.3001"),  # a number above 0.3, in its last bit
        (0.0, "0"),
        (math.inf, "inf"),
        (None, "-"),
    ],
)
def test_examples(epsilon, printed):
    assert format_epsilon(epsilon) == printed


@given(epsilon=st.floats(0, allow_infinity=False), digits=st.integers(1, 9))
def test_never_below_and_within_one_of_the_last_digit(epsilon, digits):
    printed = format_epsilon(epsilon, digits=digits)
    assert float(printed) >= epsilon
    if epsilon > 1e-300 and math.isfinite(float(printed)):
        assert float(printed) <= epsilon * (1 + 10.0 ** (1 - digits)) * (1 + 1e-15)


@pytest.mark.parametrize("epsilon", [-1e-300, math.nan, -math.inf])
def test_what_is_no_epsilon_is_refused(epsilon):
    with pytest.raises(ValueError, match="expected epsilon >= 0"):
        format_epsilon(epsilon)


@given(epsilon=st.floats(0, allow_infinity=False), digits=st.integers(1, 9))
def test_a_lower_bound_is_never_above_and_within_one_of_the_last_digit(epsilon, digits):
    printed = float(format_lower_bound(epsilon, digits=digits))
    assert printed <= epsilon
    if epsilon > 1e-300:
        assert epsilon - printed <= 1.0001 * 10.0 ** (
            math.floor(math.log10(epsilon)) + 1 - digits
        )


def test_a_lower_bound_that_is_missing_infinite_or_none():
    assert [format_lower_bound(each) for each in (None, math.inf, 0.0)] == [
        "-",
        "inf",
        "0",
    ]
    with pytest.raises(ValueError, match="epsilon >= 0"):
        format_lower_bound(math.nan)
