"""Trials as tables for people. Plain data in, Rich tables or Markdown out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from sweep.results import select
from sweep.results.standing import interval_of
from sweep.store.plans import Plan
from sweep.store.status import TrialStatus
from sweep.store.sweeps import TrialRecord
from trainables import figures
from trainables.privacy.mechanism import claims_privacy

_STYLES = {
    TrialStatus.DONE: "green",
    TrialStatus.STOPPED: "yellow",
    TrialStatus.FAILED: "red",
    TrialStatus.REFUSED: "dim",
    TrialStatus.RUNNING: "cyan",
    TrialStatus.INTERRUPTED: "yellow",
    TrialStatus.PLANNED: "dim",
}
_EXPLAINED = (TrialStatus.FAILED, TrialStatus.STOPPED, TrialStatus.REFUSED)  # with their reason
_SHORT = {"loss_threshold": "loss", "calibrated": "calibr."}
_MARKDOWN = ("mia_shadow_auc", "epsilon", "epsilon_paper", "seconds")


def figure(value: float | None) -> str:
    """Four digits; a dash for nothing, infinity as the sign.

    >>> figure(None), figure(12.3456), figure(float("inf")), figure(1.2e9)
    ('-', '12.35', '∞', '1.2e+09')
    """
    if value is None:
        return "-"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.4g}"


def duration(seconds: float | None) -> str:
    """Seconds as people say them.

    >>> duration(None), duration(42.3), duration(125), duration(7300)
    ('-', '42 s', '2 min 05 s', '2 h 01 min')
    """
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def plan_table(plan: Plan, *, drawn_from: bool = False) -> Table:
    """The trials of a plan, the refused ones with their reason; `drawn_from`: the configurations
    that an unknown number of trials is drawn from.
    """
    what = "configurations to draw from" if drawn_from else "trials to run"
    title = f"{plan.name}: {len(plan.to_run)} {what}, {len(plan.refused)} refused"
    if plan.to_choose:
        title += f", {plan.to_choose} to be chosen while it runs"
    if plan.seconds is not None and plan.to_run and not drawn_from:
        title += f", about {duration(plan.seconds)} one after another"
    table = Table(title=title, caption="epsilon_paper is the paper's figure and no guarantee")
    table.add_column("trial", overflow="fold", ratio=1)
    for name in ("noise", "epsilon", "epsilon_paper", "steps", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for trial in plan.trials:
        table.add_row(
            Text(trial.name if trial.runs else f"{trial.name}: refused, {trial.reason}"),
            figure(trial.noise_multiplier) if claims_privacy(trial.engine) else "-",
            figure(trial.epsilon),
            figure(trial.epsilon_paper),
            str(trial.steps or "-"),
            duration(trial.seconds),
            style=None if trial.runs else "dim",
        )
    return table


def results_table(name: str, records: Sequence[TrialRecord]) -> Table:
    """What came out, beside the baseline, SER with its 95 % interval over test utterances; a star
    marks the front of SER (or MAUVE) and epsilon.
    """
    found = select.groups(records)
    best = {record.plan.id for record in select.front(records)}
    main = select.headline(records)
    table = Table(
        title=name,
        caption=f"* on the front of {figures.label(main)} and epsilon · x: times the baseline"
        " · MIA: curator only",
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
        "MIA-AUC",
        "x",
        "epsilon",
        "epsilon_paper",
        "time",
        "x",
    ):
        table.add_column(column, justify="right")
    for record in records:
        cells = []
        for metric in (main, "mia_shadow_auc"):
            cells.append(figure(select.value(record, metric)))
            if intervals and metric == main:
                cells.append(_interval(interval_of(record)))
            cells.append(_ratio(record, metric, found))
        cells += [figure(select.value(record, name)) for name in ("epsilon", "epsilon_paper")]
        if record.status.is_finished:
            cells += [duration(record.seconds), _ratio(record, "seconds", found)]
        else:
            cells += [duration(record.seconds or None), "-"]
        table.add_row(
            "*" if record.plan.id in best else "",
            Text(record.plan.name),
            _status(record),
            *cells,
        )
    return table


def group_table(records: Sequence[TrialRecord]) -> Table | None:
    """Mean and spread over seeds; None where no trial was repeated."""
    found = [group for group in select.groups(records) if len(group.records) > 1]
    if not found:
        return None
    table = Table(title="over seeds: mean ± standard deviation (number)")
    table.add_column("trial", overflow="fold")
    main = select.headline(records)
    for column in (figures.label(main), "MIA-AUC", "epsilon"):
        table.add_column(column, justify="right")
    for group in found:
        table.add_row(
            Text(group.records[0].plan.name),
            *(_spread(group.spread(name)) for name in (main, "mia_shadow_auc", "epsilon")),
        )
    return table


def leakage_table(records: Sequence[TrialRecord]) -> Table | None:
    """What attacks found of each finished trial; None where no attack ran.

    The strongest attack, in bold, is the best of several noisy figures: read its interval.
    """
    finished = [r for r in records if r.status.is_finished and select.attacks_of(r)]
    if not finished:
        return None
    names = sorted({name for record in finished for name in select.attacks_of(record)})
    certified = any("epsilon_lower_bound" in record.metrics for record in finished)
    table = Table(
        title="leakage: each attack's AUC in % ± 95 % (curator only)",
        caption="TPR: at 1 % FPR, of the strongest (~ low resolution) · blind sees no model and"
        " should be at 50 · Δ % to the baseline, * significant"
        + (" · epsilon ≥: certified for all trials together at 95 %" if certified else ""),
        box=box.SIMPLE_HEAD,
        padding=(0, 0),
        pad_edge=False,
    )
    table.add_column("trial", overflow="fold", min_width=16)
    for column in (*(_SHORT.get(name, name) for name in names), "TPR", "blind", "ΔSER", "ΔMIA"):
        table.add_column(column, justify="right", no_wrap=True)
    if certified:
        table.add_column("ε ≥", justify="right", no_wrap=True)
        table.add_column("claimed", justify="right", no_wrap=True)
    for record in finished:
        best = select.attacks_of(record)[0]
        areas = [Text(_area(record, name), style="bold" if name == best else "") for name in names]
        cells: list[Text | str] = [
            *areas,
            _rate(record, best),
            _area(record, "blind"),
            _change(record, "ser"),
            _change(record, "mia"),
        ]
        if certified:
            paired = record.plan.config["data"].get("split") == "paired"
            claim = "epsilon_replace_one" if paired else "epsilon"
            cells += [figure(record.metrics.get(n)) for n in ("epsilon_lower_bound", claim)]
        table.add_row(
            Text(record.plan.name), *cells, style="bold red" if record.violation else None
        )
    return table


def violations(records: Sequence[TrialRecord]) -> list[str]:
    """A sentence for each trial whose certified bound exceeds its claim."""
    return [
        f"privacy violation: {record.plan.id} claims epsilon"
        f" {figure(record.violation['epsilon_claimed'])} and its records certify at least"
        f" {figure(record.violation['epsilon_lower_bound'])}: {record.plan.name}"
        for record in records
        if record.violation is not None
    ]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a running trial is; `epsilon` is what it has spent."""

    name: str
    status: TrialStatus
    epochs_done: int
    epochs: int
    validation: tuple[str, float | None] = ("SER", None)  # as `goals.validated` gives it
    epsilon: float | None = None
    seconds_per_epoch: float | None = None
    reason: str = ""  # why it failed


def live_table(
    name: str, progress: Mapping[str, Progress], *, summary: str, max_rows: int = 30
) -> Table:
    """What happens now: the running trials, and the newest ended ones as far as there is room."""
    table = Table(title=name, caption=summary, caption_justify="left")
    table.add_column("trial", overflow="ellipsis", no_wrap=True)
    table.add_column("status")
    for column in ("epoch", "validation", "epsilon spent", "epoch takes"):
        table.add_column(column, justify="right")
    rows = list(progress.values())
    running = [row for row in rows if row.status is TrialStatus.RUNNING]
    ended = [row for row in rows if row.status.is_over or row.status is TrialStatus.REFUSED]
    room = max(0, max_rows - len(running))
    for row in [*(ended[-room:] if room else []), *running[:max_rows]]:
        table.add_row(
            Text(row.name),
            Text(row.status, style=_STYLES[row.status]),
            f"{row.epochs_done}/{row.epochs}",
            f"{row.validation[0]} {figure(row.validation[1])}",
            figure(row.epsilon),
            duration(row.seconds_per_epoch),
        )
    return table


def markdown(records: Sequence[TrialRecord]) -> str:
    """Finished trials as a Markdown table, the front in bold."""
    best = {record.plan.id for record in select.front(records)}
    names = (select.headline(records), *_MARKDOWN)
    lines = [f"| trial | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for record in records:
        figures = [select.value(record, name) for name in names]
        cells = ["" if value is None else figure(value) for value in figures]
        name = record.plan.name.replace("|", "/")
        name = f"**{name}**" if record.plan.id in best else name
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _area(record: TrialRecord, attack: str) -> str:
    value, low, high = (
        record.metrics.get(f"mia_{attack}_auc{end}") for end in ("", "_low", "_high")
    )
    if value is None:
        return "-"
    around = "" if low is None or high is None else f"±{50 * (high - low):.1f}"
    return f"{100 * value:.1f}{around}"


def _rate(record: TrialRecord, attack: str) -> str:
    share = record.metrics.get(f"mia_{attack}_tpr_1pct")
    coarse = record.metrics.get(f"mia_{attack}_tpr_1pct_low_resolution")
    return "-" if share is None else f"{'~' if coarse else ''}{100 * share:.1f}"


def _change(record: TrialRecord, what: str) -> str:
    value = record.metrics.get(f"delta_{what}_percent")
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 100 else 1
    return f"{value:+.{digits}f}{'*' if record.metrics.get(f'delta_{what}_significant') else ''}"


def _status(record: TrialRecord) -> Text:
    text = Text(record.status, style=_STYLES[record.status])
    if record.reason and record.status in _EXPLAINED:
        text.append(f": {record.reason}")
    return text


def _ratio(record: TrialRecord, metric: str, found: Sequence[select.Group]) -> str:
    ratio = None if record.plan.baseline else select.ratio(record, metric, found)
    return "" if ratio is None else f"{ratio:.2f}"


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f"{bounds[0]:.3f}-{bounds[1]:.3f}"


def _spread(spread: select.Spread | None) -> str:
    if spread is None:
        return "-"
    around = "" if spread.std is None else f" ± {figure(spread.std)}"
    return f"{figure(spread.mean)}{around} ({spread.count})"
