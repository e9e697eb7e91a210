"""What the rows of `table1.py` say beside the paper's cells, and what chance would say.

Pure: figures in, figures and lines of text out. `rows` are those of
`docs/measurements/table1.csv`, `cells` the paper's by (corpus, model).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from trainables import catalogue

DECAYS = ("none", "linear", "exponential")
# The fewest epochs at which the paper's grid (z0 >= 1e-6, tau <= .5) reaches the lg
# epsilon of its cell of ATIS with the CLC and exponential decay, 24.4. The paper states
# no number of epochs.
PAPER_EPOCHS = 30
# The paper rounds lg epsilon to a tenth, which is an eighth of z0 at most.
_ROUNDING = 1.125


@dataclass(frozen=True)
class Reading:
    """How far changes agree with the paper's, cell by cell."""

    cells: int
    """number of cells"""
    same_sign: int
    """cells whose change has the paper's sign"""
    by_chance: float
    """`same_sign` expected of the same changes in any other order"""
    spearman: float
    """rank correlation with the paper's changes, -1 to 1; nan where one side is
    constant or there are fewer than three cells
    """
    contained: int
    """intervals that contain the paper's figure"""
    sure: int
    """intervals that exclude 0"""
    sure_below: int
    """of `sure`, those below 0"""
    sure_same_sign: int
    """of `sure`, those with the paper's sign"""


def reading(
    ours: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    theirs: Sequence[float],
) -> Reading:
    """Our changes with the bounds of their intervals against the paper's, in percent.

    Chance: with p of our changes below 0 and r of the paper's, both signs are equal in
    p r + (1 - p)(1 - r) of the cells where they have nothing to do with each other.
    """
    mine, paper = np.asarray(ours, float), np.asarray(theirs, float)
    below, above = np.asarray(low, float), np.asarray(high, float)
    same, sure = mine * paper > 0, (below > 0) | (above < 0)
    p, r = float(np.mean(mine < 0)), float(np.mean(paper < 0))
    has_ranks = len(mine) > 2 and np.ptp(mine) > 0 and np.ptp(paper) > 0
    return Reading(
        cells=len(mine),
        same_sign=int(same.sum()),
        by_chance=len(mine) * (p * r + (1 - p) * (1 - r)),
        spearman=float(spearmanr(mine, paper).statistic) if has_ranks else math.nan,
        contained=int(((below <= paper) & (paper <= above)).sum()),
        sure=int(sure.sum()),
        sure_below=int((sure & (mine < 0)).sum()),
        sure_same_sign=int((sure & same).sum()),
    )


def noise_of(
    decay: str, *, tau: float, epsilon: float, epochs: int, delta: float
) -> float:
    """The z0 at which the paper's formula gives `epsilon`: rho = sum over epochs of
    1 / (2 z_t^2), epsilon = rho + 2 sqrt(rho ln(1 / delta)).
    """
    log = math.log(1 / delta)
    rho = (math.sqrt(epsilon + log) - math.sqrt(log)) ** 2
    factor = catalogue.entry("schedules", decay).factor
    total = sum(factor(epoch, tau=tau) ** -2 for epoch in range(epochs))
    return math.sqrt(total / (2 * rho))


def noise_ratio(row: Mapping[Any, Any], cells: pd.DataFrame, *, delta: float) -> float:
    """z0 of a row over the one that its cell of the paper implies for `PAPER_EPOCHS`
    with the row's tau. Below 1: less noise a step.
    """
    theirs = cells.loc[(row["corpus"], row["model"])]
    implied = noise_of(
        row["method"],
        tau=row["tau"],
        epsilon=10.0 ** theirs[f"{row['method']}_log10_epsilon"],
        epochs=PAPER_EPOCHS,
        delta=delta,
    )
    return float(row["z0"]) / implied


def groups(
    rows: pd.DataFrame, public: Sequence[str]
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """The rows of the decays by noise and kind of corpus. Noise `equal` is left out: its
    epsilon is not that of its own cell.
    """
    kinds = rows["corpus"].isin(public).map({True: "public", False: "synthetic"})
    for noise in ("implied", "grid"):
        for kind in ("public", "synthetic"):
            is_own = (rows["noise"] == noise) & (kinds == kind)
            own = rows[is_own & rows["method"].isin(DECAYS)]
            if len(own):
                yield noise, kind, own


def agreement(
    rows: pd.DataFrame, cells: pd.DataFrame, public: Sequence[str]
) -> Iterator[str]:
    """For each noise and kind of corpus a line for SER and one for MIA: agreement with
    the paper beside what chance gives.
    """
    for noise, kind, own in groups(rows, public):
        for name, column in (("ser", "SER"), ("mia", "MIA")):
            known = own[own[f"{name}_change"].notna()]
            if not len(known):
                continue
            theirs = [
                cells.loc[(row["corpus"], row["model"])][
                    f"{row['method']}_delta_{name}"
                ]
                for row in known.to_dict("records")
            ]
            ours, low, high = (
                known[f"{name}_change{end}"].tolist() for end in ("", "_low", "_high")
            )
            found = reading(ours, low, high, theirs)
            ranks = f"; Spearman {found.spearman:.2f}" if found.cells >= 10 else ""
            yield (
                f"{noise}, {kind}: the sign of the change of {column} is the paper's in"
                f" {found.same_sign} of {found.cells} cells (chance"
                f" {found.by_chance:.1f}){ranks}; of the"
                f" intervals {found.contained} contain the paper's figure and"
                f" {found.sure} exclude 0 ({found.sure_below} below),"
                f" {found.sure_same_sign} of them with the paper's sign"
            )


def noises(
    rows: pd.DataFrame,
    cells: pd.DataFrame,
    public: Sequence[str],
    deltas: Mapping[str, float],
) -> Iterator[str]:
    """For noise `implied` and each kind of corpus: which cells have the noise that the
    paper's epsilon implies over `PAPER_EPOCHS`, and which miss even that epsilon over
    their own. `deltas`: by corpus.
    """
    for noise, kind, own in groups(rows, public):
        if noise != "implied":
            continue
        alike, ratios, missed = [], [], []
        for row in own.to_dict("records"):
            name = f"{row['corpus']} {row['model']} {row['method']}"
            ratio = noise_ratio(row, cells, delta=deltas[row["corpus"]])
            if 1 / _ROUNDING <= ratio <= _ROUNDING:
                alike.append(name)
            else:
                ratios.append(ratio)
            theirs = cells.loc[(row["corpus"], row["model"])]
            wanted = theirs[f"{row['method']}_log10_epsilon"]
            reached = math.log10(row["epsilon_paper"])
            if abs(reached - wanted) > 0.1:
                missed.append(f"{name} ({reached:.1f}, the paper {wanted:g})")
        others = (
            f"; z0 of the others is {min(ratios):.2g} to {max(ratios):.2g} of it"
            if ratios
            else ""
        )
        yield (
            f"{noise}, {kind}: {len(alike)} of {len(own)} cells have the noise that the"
            f" paper's epsilon implies over {PAPER_EPOCHS} epochs"
            f" ({', '.join(alike) or 'none'}){others}"
        )
        if missed:
            yield (
                f"{noise}, {kind}: {len(missed)} of {len(own)} cells miss the paper's lg"
                f" epsilon over their own epochs too: {', '.join(missed)}"
            )


def leaks(rows: pd.DataFrame, public: Sequence[str]) -> Iterator[str]:
    """For each kind of corpus: the pairs whose SGD leaks to the paper's attack, whose
    cells alone can show less leakage.
    """
    sgd = rows[(rows["method"] == "sgd") & rows["mia"].notna()]
    for kind in ("public", "synthetic"):
        own = sgd[sgd["corpus"].isin(public) == (kind == "public")]
        if not len(own):
            continue
        seen = own[own["mia_low"] > 0.5]
        names = (seen["corpus"] + " " + seen["model"]).tolist()
        yield (
            f"SGD, {kind}: the interval of the AUC of the paper's attack lies above 50 %"
            f" in {len(seen)} of {len(own)} pairs ({', '.join(names) or 'none'})"
        )
