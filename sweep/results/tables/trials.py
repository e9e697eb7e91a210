"""The results of a sweep as a table, from plain data, fitted to the width of its output."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text

from sweep.results import select
from sweep.results.tables.axes import setting_columns, short_ids, varied_paths
from sweep.results.tables.fitting import Column, FittedTable
from sweep.store.state import TrialStatus
from sweep.store.sweeps import TrialRecord
from trainables import figures, formats

STYLES = {
    TrialStatus.DONE: "green",
    TrialStatus.STOPPED: "yellow",
    TrialStatus.FAILED: "red",
    TrialStatus.REFUSED: "dim",
    TrialStatus.RUNNING: "cyan",
    TrialStatus.INTERRUPTED: "yellow",
    TrialStatus.PLANNED: "dim",
}
_EXPLAINED = (TrialStatus.FAILED, TrialStatus.STOPPED, TrialStatus.REFUSED)  # with their reason
_REASONS = 20  # of them below a table


def results_table(
    name: str,
    records: Sequence[TrialRecord],
    *,
    max_rows: int | None = None,
) -> FittedTable:
    """The results relative to the baseline, SER with its 95 % interval over test utterances; a star
    marks the front of SER (or MAUVE) and epsilon. With more trials than `max_rows`, that many:
    baselines, the front, then the best.
    """
    best = {record.plan.id for record in select.front(records)}
    main = select.headline(records)
    shown = _select_rows(records, best, main, max_rows)
    ids = short_ids([record.plan.id for record in records])
    plans = [record.plan for record in shown]
    apart, together = setting_columns(plans, varied_paths([record.plan for record in records]))
    stars = Column(
        head="",
        name="front",
        cells=["*" if record.plan.id in best else "" for record in shown],
        legend=f"* on the front of {figures.label(main)} and epsilon",
    )
    numbers = {status: sum(r.status is status for r in records) for status in TrialStatus}
    known = [f"{number} {status}" for status, number in numbers.items() if number]
    reasons = [
        f"{ids[record.plan.id]} {record.status}: {record.reason}"
        for record in shown
        if record.reason and record.status in _EXPLAINED
    ]
    if len(reasons) > _REASONS:
        reasons[_REASONS:] = [f"and {len(reasons) - _REASONS} more"]
    status = []
    if len({record.status for record in shown}) > 1:
        cells = [Text(record.status, style=STYLES[record.status]) for record in shown]
        status.append(Column(head="status", cells=cells, worth=90, is_left=True))
    columns = [
        stars,
        Column(head="id", cells=[ids[record.plan.id] for record in shown], is_left=True),
        *apart,
        *status,
        *_figures(shown, main, records),
    ]
    return FittedTable(
        title=f"{name}: {', '.join(known) or 'no trials'}",
        columns=columns,
        settings=together,
        notes=reasons,
    )


def _figures(
    records: Sequence[TrialRecord], main: str, every: Sequence[TrialRecord]
) -> list[Column]:
    """Figures of the shown `records` relative to the baselines and the prior in `every`."""
    found, priors = select.baselines(every), select.priors(every)
    firsts = [group.records[0] for group in found]
    names = list(dict.fromkeys(r.plan.name for r in firsts if not select.is_prior(r)))
    times = f"×: times {names[0] if len(names) == 1 else 'the nearest baseline'}"

    def column(metric: str, *, worth: int, legend: str = "", head: str = "") -> Column:
        cells = [_cell(record, metric) for record in records]
        head = head or (figures.label(metric) if metric == main else metric)
        return Column(head=head, cells=cells, worth=worth, legend=legend)

    def ratio(metric: str, words: str, *, worth: int) -> Column:
        cells = [
            ""
            if record.plan.baseline or (metric == "seconds" and not record.status.is_finished)
            else _times(select.ratio(record, metric, found))
            for record in records
        ]
        return Column(head=f"{words} ×", cells=cells, worth=worth, legend=times)

    # The trial's bootstrap interval, which does not compare trials with each other.
    bounds = [select.interval_of(r) if main == "ser" else None for r in records]
    intervals = [f"{each[0]:.3f}-{each[1]:.3f}" if each else "" for each in bounds]
    epsilons = [
        _cell(r, figures.EPSILON) + (" (prior)" if select.is_prior(r) else "") for r in records
    ]
    seconds = [r.seconds if r.status.is_finished else r.seconds or None for r in records]
    strongest = "leakage: AUC of the strongest attack, curator only"
    return [
        column(main, worth=100),
        Column(head="95 %", cells=intervals, worth=30),
        ratio(main, figures.label(main), worth=60),
        Column(
            head="of ε = 0",
            cells=[_times(select.prior_ratio(record, priors)) for record in records],
            worth=50,
            legend="of ε = 0: times the error without any private record",
        ),
        column(figures.LEAKAGE, worth=70, legend=strongest),
        ratio(figures.LEAKAGE, "AUC", worth=20),
        Column(head="epsilon", cells=epsilons, worth=100),
        column(
            figures.EPSILON_PAPER,
            worth=35,
            head="paper",
            legend="paper: epsilon by the paper's formula, no guarantee",
        ),
        Column(head="time", cells=[formats.duration(each) for each in seconds], worth=45),
        ratio("seconds", "time", worth=10),
    ]


def _select_rows(
    records: Sequence[TrialRecord], front: set[str], metric: str, max_rows: int | None
) -> list[TrialRecord]:
    """The rows of a table, in the records' order."""
    if max_rows is None or len(records) <= max_rows:
        return list(records)

    def place(record: TrialRecord) -> tuple[bool, bool, float]:
        value = select.value(record, metric) if record.status.is_finished else None
        cost = math.inf if value is None else figures.cost(metric, value)
        return not record.plan.baseline, record.plan.id not in front, cost

    kept = {record.plan.id for record in sorted(records, key=place)[:max_rows]}
    return [record for record in records if record.plan.id in kept]


def group_table(
    records: Sequence[TrialRecord], *, max_rows: int | None = None
) -> FittedTable | None:
    """Mean and spread over seeds; None where no trial was repeated. With more groups than
    `max_rows`, that many of the best.
    """
    found = [group for group in select.groups(records) if len(group.records) > 1]
    if not found:
        return None
    if max_rows is not None and len(found) > max_rows:
        kept = {
            group.key for group in select.rank_groups(found, select.headline(records))[:max_rows]
        }
        found = [group for group in found if group.key in kept]
    known = {name for record in records for name in record.metrics}
    listed = (name for name in figures.listed_figures() if name in known)
    names = tuple(
        dict.fromkeys((select.headline(records), figures.LEAKAGE, figures.EPSILON, *listed))
    )
    plans = [group.records[0].plan for group in found]
    paths = [path for path in varied_paths(plans) if path != "training.seed"]
    apart, together = setting_columns(plans, paths)
    spreads = [
        Column(
            head=figures.label(name),
            cells=[_spread(name, group.spread(name)) for group in found],
            worth=100 if place < 1 else max(40 - place, 1),
        )
        for place, name in enumerate(names)
    ]
    return FittedTable(
        title="over seeds: mean ± standard deviation (number)",
        columns=[*apart, *spreads],
        settings=together,
    )


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _cell(record: TrialRecord, name: str) -> str:
    inverted = name == figures.LEAKAGE and record.metrics.get("leakage_inverted")
    return formats.figure(name, select.value(record, name)) + (" inverted" if inverted else "")


def _spread(name: str, spread: select.Spread | None) -> str:
    if spread is None:
        return "-"
    around = "" if spread.std is None else f" ± {formats.number(spread.std)}"
    return f"{formats.figure(name, spread.mean)}{around} ({spread.count})"
