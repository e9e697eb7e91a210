"""The table of generated text: finished trials above the ceiling that people reach."""

import pytest

from sweep.results.tables.trials import COLUMNS, synthesis_table
from tests.sweep.results.test_select import record, text


def test_generated_text_stands_above_the_human_ceiling():
    ceiling = {
        "word_type_overlap_human_ceiling": 0.9,
        "mauve_states_human_ceiling": 0.95,
        "mauve_states_random_words": 0.02,
        "mauve_states_public_texts": 0.875,
    }
    records = [
        text("one", word_type_overlap=0.5, mauve_states=0.25, epsilon=8.0, **ceiling),
        text("two", word_type_overlap=0.75, mauve_states=0.5, epsilon=3.0),
        text("open", status="running", word_type_overlap=0.1),
        record("frames", ser=0.5),
    ]
    cells = {
        column.head: list(column.cells) for column in synthesis_table(records).columns
    }
    assert cells["trial"] == [
        "one",
        "two",
        "epsilon 0: random words",
        "epsilon 0: the public texts",
        "human: one half against the other",
    ]
    assert list(cells)[1:] == [head for _, head, _ in COLUMNS]
    assert all(len(column) == 5 for column in cells.values())
    assert cells["epsilon"][-1] == cells["loss"][-1] == "-", (
        "people have no such figure"
    )
    numbers = [float(cell) for cell in cells["MAUVE"]]
    assert numbers == pytest.approx([0.25, 0.5, 0.02, 0.875, 0.95])


def test_without_generated_text_there_is_no_table():
    assert synthesis_table([]) is None
    assert synthesis_table([record("frames", ser=0.5)]) is None
    assert (
        synthesis_table([text("open", status="failed", word_type_overlap=0.5)]) is None
    )
