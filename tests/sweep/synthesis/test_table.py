"""The table of generated text: finished trials above the ceiling that people reach."""

from sweep.results.tables.trials import COLUMNS, synthesis_table
from tests.sweep.results.test_select import record, text


def test_generated_text_stands_above_the_human_ceiling():
    ceiling = {"word_type_overlap_human_ceiling": 0.9, "mauve_human_ceiling": 0.95}
    records = [
        text("one", word_type_overlap=0.5, mauve=0.25, epsilon=8.0, **ceiling),
        text("two", word_type_overlap=0.75, mauve=0.5, epsilon=3.0),
        text("open", status="running", word_type_overlap=0.1),
        record("frames", ser=0.5),
    ]
    cells = {
        column.head: list(column.cells) for column in synthesis_table(records).columns
    }
    assert cells["trial"] == ["one", "two", "human: one half against the other"]
    assert list(cells)[1:] == [head for _, head, *_ in COLUMNS]
    assert all(len(column) == 3 for column in cells.values())
    assert cells["epsilon"][-1] == cells["loss"][-1] == "-", (
        "people have no such figure"
    )
    assert cells["MAUVE"][2] != cells["MAUVE"][0]


def test_without_generated_text_there_is_no_table():
    assert synthesis_table([]) is None
    assert synthesis_table([record("frames", ser=0.5)]) is None
    assert (
        synthesis_table([text("open", status="failed", word_type_overlap=0.5)]) is None
    )
