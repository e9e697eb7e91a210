"""The pictures of Table 1, drawn from the stored rows: `docs/images/table1_*.svg`.

    python benchmarks/table1_figures.py [FOLDER]

`table1_forest.svg` has the change of SER over SGD of each cell with its interval and
the paper's figure, `table1_leakage.svg` the AUC of the paper's attack against SER. Both
follow the light or dark scheme of the screen, and state the digest of their data, which
a test compares.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation
from table1 import CELLS, STORED, read_cells, read_rows
from table1_reading import DECAYS

from trainables.errors import InvalidInput

FOLDER = STORED.parents[1] / "images"
BY_HEART = STORED.with_stem("table1_by_heart")
# As in the charts of a report; Okabe & Ito (2008), for all kinds of colour vision.
INK, MUTED, GRID, PAPER = "#1b1f23", "#555c63", "#e4e7eb", "#ffffff"
IMPLIED, BEST = "#b84f00", "#0072b2"
STYLE: Any = {
    "svg.fonttype": "none",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
}
# What a style sheet of the picture sets by the scheme of the screen: light, dark.
_SCHEMES = {
    INK: ("ink", INK, "#e8eaed"),
    MUTED: ("muted", MUTED, "#a9b0b7"),
    GRID: ("grid", GRID, "#2b3136"),
    PAPER: ("paper", PAPER, "#14171a"),
    IMPLIED: ("implied", IMPLIED, "#f0995a"),
    BEST: ("best", BEST, "#56b4e9"),
}
_NOISES = {"implied": (IMPLIED, "o"), "grid": (BEST, "s")}
_MARKS = dict(zip(DECAYS, ("o", "^", "s"), strict=True))
_NAMES = {
    "sgd_clipped": "SGD, clipped",
    "none": "no decay",
    "linear": "linear",
    "exponential": "exponential",
}
_CORPORA = {"atis": "ATIS", "snips": "SNIPS", "nlu_eval": "NLU-EVAL"}
_MODELS = {"clc": "CLC", "bert": "BERT"}


def forest(rows: pd.DataFrame, by_heart: pd.DataFrame, cells: pd.DataFrame) -> Figure:
    """The change of SER over SGD without clipping, public corpora on the left and
    synthetic ones on the right; the axis is logarithmic in the ratio of the errors.
    """
    drawn = Figure(figsize=(11.6, 9.3))
    drawn.text(0.012, 0.978, "Change of SER over SGD without clipping", fontsize=12.5)
    drawn.text(
        0.012,
        0.958,
        "Clipping without noise (grey) does at least as well as any noisy training, except where"
        " a model learns by heart. At the noise of the paper's epsilon (orange) most"
        " errors rise.",
        color=MUTED,
    )
    public, synthetic = (
        [(pair, rows, "") for pair in _pairs(rows) if (pair[0] in _CORPORA) is wanted]
        for wanted in (True, False)
    )
    synthetic += [(pair, by_heart, ", learns by heart") for pair in _pairs(by_heart)]
    titles = ("Public corpora", "Synthetic corpora, for the paper's private ones")
    left, right = (
        drawn.add_axes((0.105 + 0.5 * side, 0.045, 0.385, 0.865)) for side in (0, 1)
    )
    places = []
    for axis, title, own in zip(
        (left, right), titles, (public, synthetic), strict=True
    ):
        places.append(_column(axis, own, cells))
        axis.set_title(title, loc="left", fontsize=10.5, color=INK, pad=6)
    for axis in (left, right):
        axis.set_ylim(max(places) - 0.2, -0.8)
    _legend(left)
    return drawn


def _pairs(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Corpus and model of each pair, in the order of the rows."""
    own = rows[["corpus", "model"]].drop_duplicates()
    return list(own.itertuples(index=False, name=None))


def _column(
    axis: Axes,
    groups: list[tuple[tuple[str, str], pd.DataFrame, str]],
    cells: pd.DataFrame,
) -> float:
    """Draw the cells of each pair, whose rows and note are given, one below the other;
    returns the next free line.
    """
    place, labels = 0.0, {}
    for (corpus, model), rows, note in groups:
        own = rows[(rows["corpus"] == corpus) & (rows["model"] == model)]
        theirs: Any = cells.loc[(corpus, model)]
        sgd = own[own["method"] == "sgd"].iloc[0]
        title = f"{_CORPORA.get(corpus, corpus)}, {_MODELS[model]}{note}"
        axis.text(0, place, title, transform=_left(axis), weight="bold", va="center")
        words = f"SGD: {100 * sgd['ser']:.1f} %"
        if corpus in _CORPORA:
            words += f" (paper: {theirs['sgd_ser']:g} %)"
        axis.text(
            1,
            place,
            words,
            transform=axis.get_yaxis_transform(),
            color=MUTED,
            ha="right",
            va="center",
        )
        place += 1
        for method, name in _NAMES.items():
            found = own[own["method"] == method]
            found = found[found["ser_change"].notna()]
            if not len(found):
                continue
            labels[place] = name
            axis.axhline(place, color=GRID, lw=0.6, zorder=0)
            for row in found.to_dict("records"):
                colour, mark = _NOISES.get(row["noise"], (MUTED, "D"))
                rise = {"implied": -0.16, "grid": 0.16}.get(row["noise"], 0.0)
                if row["noise"] != "equal":
                    _interval(axis, row, place + rise, colour, mark)
            if method in DECAYS:
                axis.plot(
                    [1 + theirs[f"{method}_delta_ser"] / 100],
                    [place],
                    "o",
                    ms=6,
                    mfc="none",
                    mec=INK,
                    mew=1.1,
                )
            place += 1
        place += 0.4
    _scale(axis)
    axis.set_yticks(list(labels), list(labels.values()))
    return place


def _left(axis: Axes) -> Any:
    """Coordinates that begin at the left end of the labels, lines as y."""
    figure: Any = axis.get_figure()
    return axis.get_yaxis_transform() + ScaledTranslation(
        -1.12, 0, figure.dpi_scale_trans
    )


def _interval(
    axis: Axes, row: dict[Any, Any], place: float, colour: str, mark: str
) -> None:
    """A change with its interval, as ratios of the errors."""
    value, low, high = (
        1 + row[f"ser_change{end}"] / 100 for end in ("", "_low", "_high")
    )
    axis.plot([low, high], [place, place], color=colour, lw=1.3, solid_capstyle="butt")
    axis.plot([value], [place], mark, color=colour, ms=4.2, mew=0)


def _scale(axis: Axes) -> None:
    """A logarithmic axis of ratios with changes in percent as its ticks."""
    axis.set_xscale("log")
    axis.set_xlim(0.55, 7)
    ratios = [0.6, 0.8, 1, 1.4, 2, 3, 5]
    axis.xaxis.set_major_locator(FixedLocator(ratios))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(
        FuncFormatter(lambda r, _: f"{100 * (r - 1):+.0f} %".replace("+0 %", "0"))
    )
    axis.axvline(1, color=MUTED, lw=0.9, zorder=1)
    axis.tick_params(length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.patch.set_visible(False)


def _legend(axis: Axes) -> None:
    """What the marks are, below the last cell of the public corpora."""
    axis.legend(
        handles=[
            _mark("D", MUTED, "SGD, gradient clipped to norm 1, no noise"),
            _mark("o", IMPLIED, "eDP-SGD, noise of the paper's epsilon (our epochs)"),
            _mark("s", BEST, "eDP-SGD, best of three points of the paper's grid"),
            _mark("o", INK, "the paper", is_hollow=True),
        ],
        loc="lower left",
        bbox_to_anchor=(0.02, 0.0),
        facecolor=PAPER,
        edgecolor="none",
        framealpha=1,
        fontsize=9,
        title="Bars: 95 % intervals, paired over test records",
        title_fontsize=9,
        alignment="left",
    )


def _mark(mark: str, colour: str, label: str, *, is_hollow: bool = False) -> Line2D:
    line = "none" if is_hollow else "-"
    face = "none" if is_hollow else colour
    return Line2D(
        [], [], marker=mark, color=colour, mfc=face, ls=line, ms=5, label=label
    )


def leakage(rows: pd.DataFrame, by_heart: pd.DataFrame, cells: pd.DataFrame) -> Figure:
    """The AUC of the paper's attack against SER: six public pairs, and the pair that
    learns by heart.
    """
    drawn = Figure(figsize=(11.6, 6.2))
    drawn.text(0.012, 0.963, "Leakage against error", fontsize=12.5)
    drawn.text(
        0.012,
        0.932,
        "AUC of the paper's attack falls towards 50 % where noise has destroyed the"
        " model; only a model that learns by heart loses errors and leakage together.",
        color=MUTED,
    )
    axes = drawn.subplots(2, 4, sharex=True, sharey=True)
    drawn.subplots_adjust(0.055, 0.085, 0.99, 0.87, wspace=0.08, hspace=0.22)
    public = [pair for pair in _pairs(rows) if pair[0] in _CORPORA]
    places = [(*pair, rows, "") for pair in public]
    places += [
        (*pair, by_heart, ", learns by heart")
        for pair in _pairs(by_heart[by_heart["mia"].notna()])
    ]
    for axis, (corpus, model, table, note) in zip(axes.flat, places, strict=False):
        own = table[(table["corpus"] == corpus) & (table["model"] == model)]
        axis.set_title(
            f"{_CORPORA.get(corpus, corpus)}, {_MODELS[model]}{note}",
            loc="left",
            fontsize=9.5,
            weight="bold",
            color=INK,
        )
        for row in own.to_dict("records"):
            if row["noise"] != "equal":
                _point(axis, row)
        if not note:
            theirs: Any = cells.loc[(corpus, model)]
            axis.plot(*_theirs(theirs), "o", ms=6, mfc="none", mec=INK, mew=1.0)
    for axis in axes.flat[:-1]:
        axis.axhline(50, color=MUTED, lw=0.9, ls=(0, (3, 4)), zorder=0)
        axis.set_xscale("log")
        axis.set_xlim(4, 115)
        axis.set_ylim(47.5, 76)
        axis.xaxis.set_major_locator(FixedLocator([5, 10, 20, 50, 100]))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axis.grid(color=GRID, lw=0.6)
        axis.set_axisbelow(True)
        axis.tick_params(length=0, labelbottom=True)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.patch.set_visible(False)
    for axis in axes[1]:
        axis.set_xlabel("SER, %")
    for axis in axes[:, 0]:
        axis.set_ylabel("AUC of the paper's attack, %")
    last = axes.flat[-1]
    last.set_axis_off()
    kinds = [
        _mark("*", INK, "SGD"),
        _mark("D", MUTED, "SGD, clipped to norm 1"),
        *(_mark(_MARKS[d], IMPLIED, f"paper's epsilon, {_NAMES[d]}") for d in DECAYS),
        *(_mark(_MARKS[d], BEST, f"best of grid, {_NAMES[d]}") for d in DECAYS),
        _mark("o", INK, "the paper: SGD, three decays", is_hollow=True),
    ]
    for kind in kinds:
        kind.set_linestyle("none")
    last.legend(handles=kinds, loc="center left", frameon=False, fontsize=9)
    return drawn


def _point(axis: Axes, row: dict[Any, Any]) -> None:
    """A trial's error and leakage in percent, with the intervals of both."""
    colour, _ = _NOISES.get(row["noise"], (MUTED, ""))
    mark = _MARKS.get(row["method"], "D")
    if row["method"] == "sgd":
        colour, mark = INK, "*"
    x, y = 100 * row["ser"], 100 * row["mia"]
    axis.errorbar(
        x,
        y,
        xerr=[[x - 100 * row["ser_low"]], [100 * row["ser_high"] - x]],
        yerr=[[y - 100 * row["mia_low"]], [100 * row["mia_high"] - y]],
        fmt=mark,
        color=colour,
        ms=8 if mark == "*" else 4.6,
        mew=0,
        elinewidth=0.8,
    )


def _theirs(cells: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """SER and AUC of the paper's SGD and three decays."""
    found = [(cells["sgd_ser"], cells["sgd_mia_auc"])]
    for decay in DECAYS:
        changes = (cells[f"{decay}_delta_ser"], cells[f"{decay}_delta_mia"])
        own = [of * (1 + by / 100) for of, by in zip(found[0], changes, strict=True)]
        found.append((own[0], own[1]))
    return np.array([x for x, _ in found]), np.array([y for _, y in found])


def svg(figure: Figure, *, name: str, title: str) -> str:
    """The picture as SVG in the colours of the screen's scheme, with its title and the
    digest of its data.
    """
    out = io.StringIO()
    facts: dict[str, Any] = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    facts |= {"Title": title, "Description": f"data {digest()}"}
    figure.patch.set_facecolor(PAPER)
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        figure.savefig(out, format="svg", metadata=facts)
    text = out.getvalue()
    for colour, (variable, _, _) in _SCHEMES.items():
        text = text.replace(colour, f"var(--{variable})")
    light, dark = (
        ";".join(f"--{each[0]}:{each[place]}" for each in _SCHEMES.values())
        for place in (1, 2)
    )
    style = (
        f"<style>:root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
        "text{font-family:system-ui,'DejaVu Sans',sans-serif}</style>"
    )
    start = text.index(">", text.index("<svg")) + 1
    head = text[:start].rstrip(">") + f' role="img" aria-label="{title}">'
    lines = (head + style + text[start:]).splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def digest() -> str:
    """Of the three files that the pictures are drawn from."""
    data = b"".join(path.read_bytes() for path in (STORED, BY_HEART, CELLS))
    return f"sha256:{hashlib.sha256(data).hexdigest()[:16]}"


def pictures() -> Iterator[tuple[str, str]]:
    """The name and SVG of each picture.

    Raises: InvalidInput where a file of its data is damaged.
    """
    cells = read_cells(CELLS)
    rows, by_heart = (read_rows(path, cells) for path in (STORED, BY_HEART))
    with matplotlib.rc_context(STYLE):
        yield (
            "table1_forest",
            svg(
                forest(rows, by_heart, cells),
                name="forest",
                title="Change of SER over SGD of each cell of Table 1 beside the paper's",
            ),
        )
        yield (
            "table1_leakage",
            svg(
                leakage(rows, by_heart, cells),
                name="leakage",
                title="AUC of the paper's attack against SER for each cell of Table 1",
            ),
        )


def main() -> None:
    """Draw both pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    folder = parser.parse_args().folder
    try:
        for name, text in pictures():
            (folder / f"{name}.svg").write_text(text, encoding="utf-8")
            print(folder / f"{name}.svg")
    except (InvalidInput, OSError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
