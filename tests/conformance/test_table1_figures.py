"""The pictures of Table 1 are those of the rows that are stored."""

import importlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = "python benchmarks/table1_figures.py"


@pytest.fixture
def figures(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("table1_figures")


@pytest.mark.parametrize("name", ["table1_forest", "table1_leakage"])
def test_a_picture_is_not_older_than_its_data(figures, name):
    text = (ROOT / "docs" / "images" / f"{name}.svg").read_text("utf-8")
    assert figures.digest() in text, f"{name}.svg is older than its rows: {COMMAND}"


def test_the_digest_follows_the_rows(figures, monkeypatch, tmp_path):
    before = figures.digest()
    changed = tmp_path / "table1.csv"
    changed.write_text(figures.STORED.read_text().replace("0.0749", "0.0750", 1))
    monkeypatch.setattr(figures, "STORED", changed)
    assert figures.digest() != before


def test_both_pictures_have_every_cell_and_both_schemes(figures, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["table1_figures.py", str(tmp_path)])
    figures.main()
    words = {}
    for file in tmp_path.iterdir():
        root = ElementTree.fromstring(file.read_text("utf-8"))
        assert root.get("aria-label")
        assert "prefers-color-scheme:dark" in file.read_text("utf-8")
        words[file.stem] = [
            each.text for each in root.iter("{http://www.w3.org/2000/svg}text")
        ]
    assert words["table1_forest"].count("exponential") == 12 + 1
    assert words["table1_forest"].count("SGD, clipped") == 12 + 1
    assert "SGD: 7.5 % (paper: 6.3 %)" in words["table1_forest"]
    assert words["table1_leakage"].count("SER, %") == 3
    for pair in ("ATIS, CLC", "NLU-EVAL, BERT", "health, CLC, learns by heart"):
        assert all(pair in each for each in words.values())


def test_damaged_rows_are_one_line(figures, monkeypatch, tmp_path, capsys):
    damaged = tmp_path / "table1.csv"
    damaged.write_text("corpus,model\natis,clc\n")
    monkeypatch.setattr(figures, "STORED", damaged)
    monkeypatch.setattr("sys.argv", ["table1_figures.py", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        figures.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
