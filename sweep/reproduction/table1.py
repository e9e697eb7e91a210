"""Table 1 as Markdown and CSV: the paper's layout, and every row with its intervals. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sweep.reproduction.description import Table
from sweep.reproduction.layout import csv_of, grid
from sweep.reproduction.rows import CoarseRow, Row
from sweep.reproduction.stages import FULL, LEAKAGE
from sweep.reproduction.statistics import Estimate
from trainables import formats
from trainables.privacy.rounding import format_delta

NOISE, INVERTED = "~", "inverted"
_LEGEND = (
    "SER and MIA in %, means over seeds, 95 % intervals in brackets. Changes in % of the"
    " baseline's of the same seeds: paired over the same records, and over seeds. MIA: AUC of the"
    " paper's attack (a shadow model); inverted where its interval lies below 50: members score"
    " lower, and a change would be none of leakage. The last change is of the attack that is"
    f" strongest on the baseline. {NOISE} marks a change that is inside the noise: its interval"
    " contains 0. lg ε: log10 of epsilon, by the paper's formula and guaranteed."
)
_NOT_COVERED = (
    "A guaranteed ε is of one trial and its training records. It does not cover the points of the"
    " coarse pass, the choice of the best one by validation SER, or the other seeds: `sweep ledger`"
    " composes all trials on a data set. No ε covers MIA and AUCs, which are computed from training"
    " records without noise, for the data's curator only."
)


def markdown(table: Table, rows: Sequence[Row], coarse: Sequence[CoarseRow]) -> str:
    """The whole table."""
    full = [row for row in rows if row.part == FULL]
    pool = [row for row in rows if row.part == LEAKAGE]
    parts = [
        "# Table 1",
        _LEGEND,
        _NOT_COVERED,
        "## In the paper's layout",
        _paper_layout(table, full),
    ]
    parts += ["## Every row", _every_row(full)] if full else []
    if pool:
        parts += [
            "## With an independent coin for each record",
            "Trials are each other's shadow models; MIA is the paper's attack on the same split.",
            _every_row(pool),
        ]
    if coarse:
        parts += ["## The coarse pass", _coarse(coarse)]
    said = [_hours(rows, coarse), *table.paper_notes]
    parts += ["## Notes", "\n".join(f"- {note}" for note in said)]
    return "\n\n".join(parts) + "\n"


def _hours(rows: Sequence[Row], coarse: Sequence[CoarseRow]) -> str:
    """What the trials of the table took, one process each, by the clock."""
    hours = [sum(each.seconds for each in part) / 3600 for part in (coarse, rows)]
    return (
        f"The trials of the table ran {sum(hours):.1f} hours of one process each,"
        f" {hours[0]:.1f} of them in the coarse pass."
    )


def _paper_layout(table: Table, rows: Sequence[Row]) -> str:
    if not rows:
        return "No trial of a full stage has finished."
    methods = {name: each for name, each in table.methods.items() if each.decay is not None}
    heads = ["corpus", "model", "", "SGD SER", "SGD MIA"]
    for method in methods.values():
        heads += [f"{method.decay} {what}" for what in ("SER", "MIA", "lg ε", "lg ε guaranteed")]
    base = next(iter(table.methods))
    lines = []
    for corpus, model in dict.fromkeys((row.corpus, row.model) for row in rows):
        own = {r.method: r for r in rows if (r.corpus, r.model) == (corpus, model)}
        cells = [_share(_of(own, base, "ser")), _share(_of(own, base, "mia"))]
        for name in methods:
            row = own.get(name)
            cells += [
                _change(row.ser_change if row else None, short=True),
                _change_of_mia(row, short=True),
                formats.log10(row.epsilon_paper if row else None),
                formats.log10(row.epsilon if row else None),
            ]
        lines.append([corpus, model, "here", *cells])
        paper = table.paper.get(corpus, {}).get(model, {})
        known = [f"{paper[name]:g}" if name in paper else "" for name in ("ser", "mia")]
        lines.append([corpus, model, "paper", *known, *[""] * (4 * len(methods))])
    return grid(heads, lines)


def _of(own: dict[str, Row], method: str, figure: str) -> Estimate | None:
    found: Estimate | None = getattr(own[method], figure) if method in own else None
    return found


def _every_row(rows: Sequence[Row]) -> str:
    heads = [
        *("corpus", "model", "method", "C", "z0", "tau", "seeds", "epochs", "SER", "change of SER"),
        *("MIA", "change of MIA", "strongest attack", "its AUC", "change of the baseline's"),
        *("delta", "lg ε, paper", "ε guaranteed", "lg ε guaranteed"),
    ]
    lines = []
    for row in rows:
        point = row.point
        lines.append(
            [
                *(row.corpus, row.model, row.label),
                *(("", "", "") if point is None else _numbers(point.c, point.z0, point.tau)),
                *(str(row.seeds), str(row.epochs)),
                *(_share(row.ser, bounds=True), _change(row.ser_change)),
                *(_share(row.mia, bounds=True), _change_of_mia(row)),
                *(row.attack or "-", _share(row.leakage, bounds=True)),
                _change(row.leakage_change),
                format_delta(row.delta),
                *(
                    formats.log10(row.epsilon_paper),
                    formats.epsilon(row.epsilon),
                    formats.log10(row.epsilon),
                ),
            ]
        )
    return grid(heads, lines)


def _coarse(rows: Sequence[CoarseRow]) -> str:
    lines = [
        [
            *(row.corpus, row.model, row.decay),
            *_numbers(row.point.c, row.point.z0, row.point.tau),
            *(row.status, str(row.epochs_done)),
            "-" if row.validation_ser is None else f"{100 * row.validation_ser:.1f}",
            "best" if row.is_best else "",
        ]
        for row in rows
    ]
    heads = ["corpus", "model", "decay", "C", "z0", "tau", "status", "epochs", "validation SER", ""]
    return grid(heads, lines)


def _numbers(*values: float) -> tuple[str, ...]:
    return tuple(f"{value:g}" for value in values)


def _share(estimate: Estimate | None, *, bounds: bool = False) -> str:
    """A share in percent.

    >>> _share(Estimate(value=0.063, low=0.055, high=0.071), bounds=True)
    '6.3 (5.5 to 7.1)'
    """
    if estimate is None:
        return "-"
    text = f"{100 * estimate.value:.1f}"
    return f"{text} ({100 * estimate.low:.1f} to {100 * estimate.high:.1f})" if bounds else text


def _change(change: Estimate | None, *, short: bool = False) -> str:
    """A change in percent, with its interval unless `short`, and the mark of noise.

    >>> _change(Estimate(value=-12.9, low=-20.04, high=1.0))
    '-12.9 (-20.0 to +1.0) ~'
    """
    if change is None:
        return "-"
    text = f"{change.value:+.1f}"
    if not short:
        text += f" ({change.low:+.1f} to {change.high:+.1f})"
    return f"{text} {NOISE}" if change.is_noise else text


def _change_of_mia(row: Row | None, *, short: bool = False) -> str:
    if row is not None and row.mia is not None and row.mia.high < 0.5:
        return INVERTED
    return _change(row.mia_change if row else None, short=short)


def plain(row: Row | CoarseRow) -> dict[str, Any]:
    """A row as one level of plain data: intervals as `_low` and `_high`, the point as its parts."""
    found: dict[str, Any] = {}
    for name, value in asdict(row).items():
        if name == "point":
            found |= value or {"c": None, "z0": None, "tau": None}
        elif name in _ESTIMATES:
            given = value or {"value": None, "low": None, "high": None}
            found |= {name: given["value"], f"{name}_low": given["low"]}
            found[f"{name}_high"] = given["high"]
        else:
            found[name] = value
    return found


_ESTIMATES = ("ser", "mia", "leakage", "ser_change", "mia_change", "leakage_change")


def csv_text(rows: Sequence[Row] | Sequence[CoarseRow]) -> str:
    """The rows as CSV with a head; empty without rows. Infinity is `inf`."""
    return csv_of([plain(row) for row in rows])
