"""The layout of table 1, and the statistics of its cells."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest

from sweep.reproduction import description, table1
from sweep.reproduction.description import Point
from sweep.reproduction.rows import CoarseRow, Row
from sweep.reproduction.statistics import Estimate, mean, relative_change

TABLE = description.read("table1")


def estimate(value: float, half: float) -> Estimate:
    return Estimate(value=value, low=value - half, high=value + half)


def row(method: str, **fields: object) -> Row:
    given: dict[str, object] = {
        "corpus": "atis",
        "model": "clc",
        "part": "full",
        "method": method,
        "label": TABLE.methods[method].label,
        "point": None,
        "seeds": 3,
        "epochs": 30,
        "epochs_done": 30,
        "seconds": 900.0,
        "ser": estimate(0.06, 0.004),
        "mia": estimate(0.52, 0.01),
        "leakage": estimate(0.61, 0.02),
        "attack": "loss_threshold",
        "ser_change": None,
        "mia_change": None,
        "leakage_change": None,
        "delta": None,
        "epsilon": math.inf,
        "epsilon_paper": None,
    }
    return Row(**{**given, **fields})  # type: ignore[arg-type]  # as the fields are


ROWS = [
    row("sgd"),
    row(
        "linear",
        point=Point(c=0.5, z0=0.01, tau=0.1),
        ser_change=estimate(25.04, 10.0),
        mia_change=estimate(-1.5, 2.0),
        leakage_change=estimate(-6.0, 2.5),
        delta=5e-4,
        epsilon=1_854_000.0,
        epsilon_paper=234_000.0,
    ),
]
GOLDEN_LAYOUT = """\
| corpus | model |  | SGD SER | SGD MIA | none SER | none MIA | none lg ε | none lg ε guaranteed \
| linear SER | linear MIA | linear lg ε | linear lg ε guaranteed | exponential SER \
| exponential MIA | exponential lg ε | exponential lg ε guaranteed |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- \
| --- | --- |
| atis | clc | here | 6.0 | 52.0 | - | - | - | - | +25.0 | -1.5 ~ | 5.37 | 6.27 | - | - | - | - |
| atis | clc | paper | 6.3 | 67.5 |  |  |  |  |  |  |  |  |  |  |  |  |
"""
GOLDEN_ROW = (
    "| atis | clc | eDP-SGD, linear | 0.5 | 0.01 | 0.1 | 3 | 30 | 6.0 (5.6 to 6.4)"
    " | +25.0 (+15.0 to +35.0) | 52.0 (51.0 to 53.0) | -1.5 (-3.5 to +0.5) ~ | loss_threshold"
    " | 61.0 (59.0 to 63.0) | -6.0 (-8.5 to -3.5) | 0.0005 | 5.37 | 1.854e+06 | 6.27 |"
)


def test_the_table_in_the_papers_layout() -> None:
    text = table1.markdown(TABLE, ROWS, [])
    assert GOLDEN_LAYOUT in text
    assert GOLDEN_ROW in text.splitlines()
    assert "## The coarse pass" not in text
    for note in TABLE.paper_notes:
        assert f"- {note}" in text


def test_the_delta_of_a_guarantee_is_not_rounded_down() -> None:
    assert "| 3.33334e-06 |" in table1.markdown(TABLE, [row("sgd", delta=1 / 300_000)], [])


def test_an_inverted_attack_has_no_change() -> None:
    found = [row("sgd"), row("linear", mia=estimate(0.44, 0.01), mia_change=None)]
    text = table1.markdown(TABLE, found, [])
    assert "| 44.0 (43.0 to 45.0) | inverted |" in text
    assert "| - | inverted |" in text.split("## Every row")[0]


def test_the_table_says_what_no_epsilon_in_it_covers() -> None:
    head = table1.markdown(TABLE, ROWS, []).split("##")[0]
    assert "does not cover the points of the coarse pass, the choice of the best one" in head
    assert "No ε covers MIA and AUCs" in head


def test_a_pair_without_figures_of_the_paper_has_blank_cells() -> None:
    text = table1.markdown(TABLE, [row("sgd", corpus="nlu_eval")], [])
    assert f"| nlu_eval | clc | paper |{'  |' * 14}" in text.splitlines()


def test_points_of_the_coarse_pass_name_the_best() -> None:
    points = [
        CoarseRow(
            corpus="atis",
            model="clc",
            decay="none",
            point=Point(c=c, z0=0.001),
            status="done",
            epochs_done=8,
            seconds=3600.0,
            validation_ser=ser,
            is_best=ser == 0.2,
        )
        for c, ser in ((1, 0.2), (2, None))
    ]
    lines = table1.markdown(TABLE, ROWS, points).splitlines()
    assert "| atis | clc | none | 1 | 0.001 | 0 | done | 8 | 20.0 | best |" in lines
    assert "| atis | clc | none | 2 | 0.001 | 0 | done | 8 | - |  |" in lines
    ran = "2.5 hours of one process each, 2.0 of them in the coarse pass."
    assert f"- The trials of the table ran {ran}" in lines


def test_csv_has_one_column_a_figure() -> None:
    read = list(csv.DictReader(io.StringIO(table1.csv_text(ROWS))))
    assert [each["method"] for each in read] == ["sgd", "linear"]
    assert float(read[1]["ser_change_low"]) == pytest.approx(15.04)
    assert float(read[0]["epsilon"]) == math.inf
    assert read[0]["c"] == ""
    assert read[1]["tau"] == "0.1"
    assert table1.csv_text([]) == ""


def test_intervals_have_both_parts() -> None:
    one = [estimate(v, 0.03) for v in (0.5, 0.6, 0.7)]
    found = mean(one)
    assert found is not None
    # Student's t with 2 degrees of freedom: 4.303 * 0.1 / sqrt(3).
    assert found.value == pytest.approx(0.6)
    assert found.high - found.value == pytest.approx(math.hypot(4.302653 * 0.1 / 3**0.5, 0.03))


def test_a_change_within_the_noise_of_seeds_is_noise() -> None:
    paired = [estimate(-10.0, 2.0)] * 3
    calm = relative_change([0.090, 0.091, 0.089], [0.100, 0.101, 0.099], paired=paired)
    wild = relative_change([0.080, 0.110, 0.080], [0.100, 0.120, 0.080], paired=paired)
    assert calm is not None
    assert wild is not None
    assert [calm.value, wild.value] == pytest.approx([-10.0, -10.0])
    assert not calm.is_noise
    assert wild.is_noise


def test_the_interval_of_a_change_covers_it() -> None:
    """Of 400 pairs of 3 seeds around means of 0.09 and 0.1, at least 92 % contain the true change.

    False alarm below 1 in 1,000 at a coverage of 95 % (binomial, standard error 1.1 %). An interval
    of the normal instead of Student's quantile covers about 88 %, and fails.
    """
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        mine, theirs = 0.09 + 0.004 * random.normal(size=3), 0.1 + 0.004 * random.normal(size=3)
        found = relative_change(list(mine), list(theirs), paired=[estimate(0.0, 0.0)])
        assert found is not None
        covered += found.low <= -10.0 <= found.high
    assert covered >= 368


@pytest.mark.parametrize(
    ("mine", "theirs", "paired"),
    [([], [0.1], []), ([0.1], [], []), ([0.1], [0.0], [estimate(1, 1)]), ([0.1], [0.1], [])],
)
def test_no_change_without_both_sides(
    mine: list[float], theirs: list[float], paired: list[Estimate]
) -> None:
    assert relative_change(mine, theirs, paired=paired) is None
