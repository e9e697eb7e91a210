"""What is read from the rows of Table 1, on figures computed by hand."""

import importlib
import math
from pathlib import Path

import pytest

from tests.refusals import refused

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


@pytest.fixture
def table1():
    return importlib.import_module("table1")


@pytest.fixture
def read():
    return importlib.import_module("table1_reading")


@pytest.fixture
def stored(table1):
    cells = table1.read_cells(table1.CELLS)
    return table1.read_rows(table1.STORED, cells), cells


def test_agreement_by_hand(read):
    """p = 2/4 of ours and r = 1/4 of the paper's are below 0: 4 (1/8 + 3/8) = 2 signs
    are equal by chance. Ranks 1 2 3 4 and 1 2.5 2.5 4: 4.5 / sqrt(5 x 4.5).
    """
    found = read.reading(
        ours=[-2, -1, 3, 4],
        low=[-3, -2, 1, -1],
        high=[-1, 1, 5, 9],
        theirs=[-1, 5, 5, 20],
    )
    assert found.spearman == pytest.approx(4.5 / math.sqrt(22.5))
    assert (found.cells, found.same_sign, found.by_chance) == (4, 3, 2.0)
    assert (found.contained, found.sure) == (2, 2)
    assert (found.sure_below, found.sure_same_sign) == (1, 2)


def test_without_an_order_there_is_no_correlation(read):
    two = read.reading([1, 2], [0, 1], [2, 3], [1, 2])
    constant = read.reading([1, 2, 3], [0, 1, 2], [2, 3, 4], [5, 5, 5])
    assert math.isnan(two.spearman)
    assert math.isnan(constant.spearman)


def test_an_unrelated_order_has_the_signs_of_chance(read):
    """Over all pairs of our cells with the paper's, equal signs are as many as chance
    says for one pairing.
    """
    ours, theirs = [-1, -2, 3, 4, 5], [-1, 2, 3, -4, -5]
    found = read.reading(ours, ours, ours, theirs)
    pairs = sum(a * b > 0 for a in ours for b in theirs)
    assert found.by_chance == pytest.approx(pairs / 5)


@pytest.mark.parametrize(
    ("decay", "tau", "epochs", "rho"),
    [
        ("none", 0, 30, 15),
        ("linear", 0.5, 2, (1 + 2.25) / 2),
        ("exponential", 0.5, 2, (1 + math.e) / 2),
    ],
)
def test_the_noise_of_an_epsilon_by_hand(read, decay, tau, epochs, rho):
    log = math.log(2000)
    epsilon = rho + 2 * math.sqrt(rho * log)
    found = read.noise_of(decay, tau=tau, epsilon=epsilon, epochs=epochs, delta=5e-4)
    assert found == pytest.approx(1.0)


def test_fewer_epochs_than_the_papers_do_not_reach_its_epsilon(read):
    """At the least z0 and the greatest tau of its grid, with lg epsilon 24.4 rounded."""
    reached = [
        epochs
        for epochs in range(1, 40)
        if read.noise_of(
            "exponential", tau=0.5, epsilon=10**24.35, epochs=epochs, delta=5e-4
        )
        >= 1e-6
    ]
    assert min(reached) == read.PAPER_EPOCHS


def test_the_stored_rows_agree_as_chance_would(table1, read, stored):
    rows, cells = stored
    lines = list(read.agreement(rows, cells, table1.public_corpora()))
    signs = [
        line.partition("paper's in ")[2].partition(";")[0]
        for line in lines
        if "SER" in line
    ]
    assert signs == [
        "7 of 18 cells (chance 6.8)",
        "13 of 18 cells (chance 13.7)",
        "10 of 18 cells (chance 9.9)",
    ]


def test_which_stored_cells_have_the_papers_noise(table1, read, stored):
    rows, cells = stored
    deltas = {name: table1.delta_of(name) for name in table1.TABLE["corpora"]}
    public = table1.public_corpora()
    first, second, third, fourth = read.noises(rows, cells, public, deltas)
    assert "2 of 18 cells" in first
    assert "(atis clc none, atis clc exponential)" in first
    assert "3 of 18 cells miss" in second
    assert "16.7, the paper 22.1" in second
    assert "0 of 18 cells" in third
    assert "2 of 18 cells miss" in fourth


def test_which_pairs_of_sgd_leak(table1, read, stored):
    public, synthetic = read.leaks(stored[0], table1.public_corpora())
    assert "5 of 6 pairs (atis clc, atis bert, snips bert, nlu_eval clc" in public
    assert "3 of 6 pairs (communication bert, video clc, video bert)" in synthetic


def test_noise_of_thirty_epochs_is_the_papers(read, stored):
    """A cell at z0 .025 without decay: the ratio of ATIS with the CLC is 1."""
    row = {"corpus": "atis", "model": "clc", "method": "none", "tau": 0, "z0": 0.0249}
    found = read.noise_ratio(row, stored[1], delta=5e-4)
    assert found == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("atis,clc,sgd,", "other,clc,sgd,"), "other with"),
        (lambda text: text.replace("corpus,", "name,", 1), "without corpus$"),
        (lambda text: text.replace("0.07497222222222222", "few", 1), "ser of .*'few'$"),
        (lambda text: text.replace(",linear,", ",sideways,"), "method of .*'sideways'"),
        (lambda text: text.replace(",grid,", ",loud,"), "noise of .*'loud'"),
        (lambda text: "", "a CSV file, got .*No columns"),
    ],
)
def test_damaged_rows_are_refused(table1, tmp_path, change, words):
    file = tmp_path / "rows.csv"
    file.write_text(change(table1.STORED.read_text()))
    with refused(words):
        table1.read_rows(file, table1.read_cells(table1.CELLS))


def test_rows_of_a_run_where_only_sgd_has_ended_are_a_table(table1, stored, tmp_path):
    rows, cells = stored
    changes = [name for name in rows if "_change" in name]
    rows[rows["method"] == "sgd"].drop(columns=changes).to_csv(
        tmp_path / "table1.csv", index=False
    )
    read = table1.read_rows(tmp_path / "table1.csv", cells)
    assert table1.markdown(read, cells).count("| sgd |") == 12


def test_a_cell_that_stands_twice_is_refused(table1, tmp_path):
    file = tmp_path / "cells.csv"
    text = table1.CELLS.read_text()
    file.write_text(text + text.splitlines()[1] + "\n")
    with refused("got 2 for atis with clc$"):
        table1.read_cells(file)


def test_a_folder_without_ended_trials_is_one_line(
    table1, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("sys.argv", ["table1.py", "--of", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        table1.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "table1.csv").exists()
