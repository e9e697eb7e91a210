"""The benchmark's chart shows its input numbers in the project's colours."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex

from dashboards import palette
from dashboards.bench import Bar, figure

BARS = [
    Bar(engine="stock", factor=2.3, low=2.1, high=2.6, peak_mib=700.0),
    Bar(engine="sgd", factor=1.0, low=1.0, high=1.0, peak_mib=500.0),
    Bar(engine="dp_sgd", factor=1.12, low=1.1, high=1.2, peak_mib=None),
]


def test_a_bar_has_its_factor_its_number_its_name_and_its_engines_colour() -> None:
    time, memory = figure(BARS, title="t").axes
    assert [bar.get_width() for bar in time.patches] == [2.3, 1.0, 1.12]
    assert [text.get_text() for text in time.texts] == ["2.30", "1.00", "1.12"]
    assert [label.get_text() for label in time.get_yticklabels()] == [
        "stock Adam (padded)",
        "SGD",
        "DP-SGD",
    ]
    assert to_hex(time.patches[2].get_facecolor()) == palette.colour("dp_sgd").lower()
    assert [text.get_text() for text in memory.texts] == ["700", "500"]


@pytest.mark.parametrize("high", [1.3, 150.0])
def test_without_memory_there_is_one_panel_and_every_number_is_inside(high: float) -> None:
    bars = [
        Bar(engine="sgd", factor=1.0, low=1.0, high=1.0, peak_mib=None),
        Bar(engine="naive", factor=high, low=high, high=high, peak_mib=None),
    ]
    (time,) = figure(bars, title="t").axes
    low, right = time.get_xlim()
    assert low < 1
    assert right > high
