"""The guide to the paper's tables says what the stored rows say."""

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "reproduction.md").read_text("utf-8")
TITLES = {"atis": "ATIS", "snips": "SNIPS", "nlu_eval": "NLU-EVAL"}


@pytest.fixture
def table1(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("table1")


@pytest.fixture
def stored(table1):
    cells = table1.read_cells(table1.CELLS)
    return table1.read_rows(table1.STORED, cells), cells


def test_the_table_of_agreement(table1, stored):
    rows, cells = stored
    read = importlib.import_module("table1_reading")
    for noise, kind, own in read.groups(rows, table1.public_corpora()):
        for name in ("ser", "mia"):
            theirs = [
                cells.loc[(r["corpus"], r["model"])][f"{r['method']}_delta_{name}"]
                for r in own.to_dict("records")
            ]
            ours = (own[f"{name}_change{end}"] for end in ("", "_low", "_high"))
            found = read.reading(*ours, theirs)
            assert (
                f"| {noise}, {kind} | {name.upper()} | {found.same_sign} of"
                f" {found.cells} | {found.by_chance:.1f} | {found.spearman:.2f} |"
                f" {found.contained} |"
            ) in GUIDE


def change(row):
    """A change with its interval, as the guide writes it."""
    low, high = row["ser_change_low"], row["ser_change_high"]
    return f"{row['ser_change']:.0f} ({low:.0f} to {high:.0f})"


def test_the_tables_of_cells(table1, stored):
    rows, cells = stored
    for corpus, model in table1.pairs():
        own = rows[(rows["corpus"] == corpus) & (rows["model"] == model)]
        own = own.set_index(["method", "noise"])
        theirs, title = cells.loc[(corpus, model)], TITLES.get(corpus, corpus)
        for noise in ("implied", "grid"):
            if ("none", noise) not in own.index:
                continue
            words = [f"| {title}, {model.upper()}"]
            if noise == "implied":
                sgd = 100 * own.loc[("sgd", "")]["ser"]
                words += [f"{sgd:.1f} / {theirs['sgd_ser']:g}"]
                words += [change(own.loc[("sgd_clipped", "")])]
            words += [
                f"{change(own.loc[(decay, noise)])} / {theirs[f'{decay}_delta_ser']:g}"
                for decay in table1.DECAYS
            ]
            assert " | ".join(words) + " |" in GUIDE


def test_what_the_verdict_counts(table1, stored):
    rows, _ = stored
    clipped = rows[rows["method"] == "sgd_clipped"]
    assert (clipped["ser_change"] < 0).sum() == 12
    assert (clipped["ser_change_high"] < 0).sum() == 11
    noisy = rows[rows["noise"].isin(["implied", "grid"])]
    over = noisy[["ser_change_clipped", "ser_change_clipped_low"]]
    assert len(noisy) == 54
    assert [(over.iloc[:, 0] < 0).sum(), (over.iloc[:, 1] > 0).sum()] == [0, 43]
    implied = rows[rows["noise"] == "implied"]
    assert (implied["ser_change_low"] > 0).sum() == 28
    sgd = rows[(rows["method"] == "sgd") & (rows["mia_low"] > 0.5)]
    assert sgd["corpus"].isin(table1.public_corpora()).value_counts().to_dict() == {
        True: 5,
        False: 3,
    }


def test_the_table_of_seconds():
    rows = pd.read_csv(ROOT / "docs" / "measurements" / "table2.csv")
    paper = pd.read_csv(ROOT / "benchmarks" / "paper" / "table2.csv")
    paper = paper.set_index(["data", "model"])
    for (corpus, model), own in rows.groupby(["corpus", "model"]):
        words = [f"| {TITLES.get(corpus, corpus)}, {model.upper()}"]
        for engine in ("edp_sgd", "dp_sgd"):
            factors = own[own["engine"] == engine].set_index("workers")["factor"]
            several = factors.drop(1)
            words += [f"{factors[1]:.2f}"]
            words += [f"{several.min():.2f} to {several.max():.2f}"]
            words += [f"{paper.loc[(corpus, model)][f'{engine}_factor']:g}"]
        assert " | ".join(words) + " |" in GUIDE


@pytest.mark.parametrize("command", re.findall(r"^(?:sweep|python) .*", GUIDE, re.M))
def test_a_printed_command_is_accepted(command, tmp_path):
    """What prints, plans or draws is run; of what trains, its options are read."""
    words = shlex.split(command.partition("#")[0])
    first = ["-m", "sweep"] if words[0] == "sweep" else []
    words = words[1:]
    if words == ["benchmarks/table1_figures.py"]:
        words.append(str(tmp_path))
    if "--of" in words and "--plan" not in words:
        pytest.skip("of a folder that a run has made")
    trains = "--run" in words
    ran = subprocess.run(
        [sys.executable, *first, *words, *(["--help"] if trains else [])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    if trains:
        options = {word for word in words if word.startswith("--")}
        assert options <= set(re.findall(r"--[\w-]+", ran.stdout))
