"""Trials as tables for people. Plain data in, Rich tables or Markdown out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from sweep.results import select
from sweep.results.standing import interval_of
from sweep.store.plans import Plan
from sweep.store.status import TrialStatus
from sweep.store.sweeps import TrialRecord
from trainables import figures, formats
from trainables.privacy.mechanism import claims_privacy

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
_MARKDOWN = ("epsilon", "epsilon_paper", "seconds")


def plan_table(plan: Plan, *, drawn_from: bool = False) -> Table:
    """The trials of a plan, the refused ones with their reason; `drawn_from`: the configurations
    that an unknown number of trials is drawn from.
    """
    what = "configurations to draw from" if drawn_from else "trials to run"
    title = f"{plan.name}: {len(plan.to_run)} {what}, {len(plan.refused)} refused"
    if plan.to_choose:
        title += f", {plan.to_choose} to be chosen while it runs"
    if plan.seconds is not None and plan.to_run and not drawn_from:
        title += f", about {formats.duration(plan.seconds)} one after another"
    table = Table(title=title, caption="epsilon_paper is the paper's figure and no guarantee")
    table.add_column("trial", overflow="fold", ratio=1)
    for name in ("noise", "epsilon", "epsilon_paper", "steps", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for trial in plan.trials:
        table.add_row(
            Text(trial.name if trial.runs else f"{trial.name}: refused, {trial.reason}"),
            formats.number(trial.noise_multiplier) if claims_privacy(trial.engine) else "-",
            formats.epsilon(trial.epsilon),
            formats.epsilon(trial.epsilon_paper),
            str(trial.steps or "-"),
            formats.duration(trial.seconds),
            style=None if trial.runs else "dim",
        )
    return table


def results_table(
    name: str, records: Sequence[TrialRecord], *, max_rows: int | None = None
) -> Table:
    """What came out, beside the baseline, SER with its 95 % interval over test utterances; a star
    marks the front of SER (or MAUVE) and epsilon. With more trials than `max_rows`, that many:
    baselines, the front, then the best.
    """
    found = select.baselines(records)
    best = {record.plan.id for record in select.front(records)}
    main = select.headline(records)
    table = Table(
        title=name,
        caption=f"* on the front of {figures.label(main)} and epsilon · x: times the baseline"
        " · leakage: AUC of the strongest attack, curator only",
    )
    table.add_column("", width=1)
    table.add_column("trial", overflow="fold")
    table.add_column("status")
    # Its own bootstrap interval; how trials compare with each other is another question.
    intervals = main == "ser" and any(interval_of(record) for record in records)
    for column in (
        figures.label(main),
        *(["95 %"] if intervals else []),
        "x",
        "leakage",
        "x",
        "epsilon",
        "epsilon_paper",
        "time",
        "x",
    ):
        table.add_column(column, justify="right")
    for record in _shown(records, best, main, max_rows):
        cells = []
        for metric in (main, figures.LEAKAGE):
            cells.append(_cell(record, metric))
            if intervals and metric == main:
                cells.append(_interval(interval_of(record)))
            cells.append(_ratio(record, metric, found))
        cells += [_cell(record, name) for name in ("epsilon", "epsilon_paper")]
        if record.status.is_finished:
            cells += [formats.duration(record.seconds), _ratio(record, "seconds", found)]
        else:
            cells += [formats.duration(record.seconds or None), "-"]
        table.add_row(
            "*" if record.plan.id in best else "",
            Text(record.plan.name),
            _status(record),
            *cells,
        )
    return table


def _shown(
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


def group_table(records: Sequence[TrialRecord], *, max_rows: int | None = None) -> Table | None:
    """Mean and spread over seeds; None where no trial was repeated. With more groups than
    `max_rows`, that many of the best.
    """
    found = [group for group in select.groups(records) if len(group.records) > 1]
    if not found:
        return None
    if max_rows is not None and len(found) > max_rows:
        kept = {group.key for group in select.ranked(found, select.headline(records))[:max_rows]}
        found = [group for group in found if group.key in kept]
    table = Table(title="over seeds: mean ± standard deviation (number)")
    table.add_column("trial", overflow="fold")
    known = {name for record in records for name in record.metrics}
    listed = (name for name in figures.listed() if name in known)
    names = tuple(dict.fromkeys((select.headline(records), figures.LEAKAGE, "epsilon", *listed)))
    for name in names:
        table.add_column(figures.label(name), justify="right")
    for group in found:
        table.add_row(
            Text(group.records[0].plan.name),
            *(_spread(name, group.spread(name)) for name in names),
        )
    return table


def markdown(records: Sequence[TrialRecord]) -> str:
    """Finished trials as a Markdown table of public figures, the front in bold."""
    best = {record.plan.id for record in select.front(records)}
    names = (select.headline(records), *_MARKDOWN)
    heads = [figures.label(name) for name in names]
    lines = [f"| trial | {' | '.join(heads)} |", "|---" * (len(names) + 1) + "|"]
    for record in records:
        known = [(name, select.value(record, name)) for name in names]
        cells = ["" if value is None else formats.figure(name, value) for name, value in known]
        name = escaped(record.plan.name)
        name = f"**{name}**" if record.plan.id in best else name
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def escaped(text: str) -> str:
    """A person's words without what Markdown or HTML would take for their own signs.

    >>> escaped("a|b *c* <img src=x>")
    'a/b \\\\*c\\\\* &lt;img src=x&gt;'
    """
    text = " ".join(text.replace("|", "/").split())
    for sign in "\\`*_[]#!~":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _status(record: TrialRecord) -> Text:
    text = Text(record.status, style=STYLES[record.status])
    if record.reason and record.status in _EXPLAINED:
        text.append(f": {record.reason}")
    return text


def _ratio(record: TrialRecord, metric: str, found: Sequence[select.Group]) -> str:
    ratio = None if record.plan.baseline else select.ratio(record, metric, found)
    return "" if ratio is None else f"{ratio:.2f}"


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f"{bounds[0]:.3f}-{bounds[1]:.3f}"


def _cell(record: TrialRecord, name: str) -> str:
    inverted = name == figures.LEAKAGE and record.metrics.get("leakage_inverted")
    return formats.figure(name, select.value(record, name)) + (" inverted" if inverted else "")


def _spread(name: str, spread: select.Spread | None) -> str:
    if spread is None:
        return "-"
    around = "" if spread.std is None else f" ± {formats.number(spread.std)}"
    return f"{formats.figure(name, spread.mean)}{around} ({spread.count})"
