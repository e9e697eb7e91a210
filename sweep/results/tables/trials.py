"""The results of a sweep as tables, from plain data, fitted to the width of their output: trials,
repeats, attacks for the curator, and generated text as Table 1 of Mireshghallah et al. 2022. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.text import Text

from sweep.results import select
from sweep.results.tables.axes import setting_columns, short_ids, varied_paths
from sweep.results.tables.fitting import Column, FittedTable
from sweep.store.state import TrialStatus
from sweep.store.sweeps import TrialRecord
from trainables import figures, formats
from trainables.attacks import Strongest, auc_of, audited, strongest

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


_SHORT = {"loss_threshold": "loss", "calibrated": "calibr.", "shadow": "shadow (paper)"}


def leakage_table(records: Sequence[TrialRecord]) -> FittedTable | None:
    """The results of attacks on each finished trial; None where no attack ran.

    The strongest attack's interval holds for all attacks together.
    """
    found = [(r, best) for r in records if r.status.is_finished and (best := strongest(r.metrics))]
    if not found:
        return None
    ids = short_ids([record.plan.id for record in records])
    plans = [record.plan for record, _ in found]
    apart, together = setting_columns(plans, varied_paths([record.plan for record in records]))
    return FittedTable(
        title="leakage: AUC in % with 95 % (curator only)",
        columns=[
            Column(head="id", cells=[ids[plan.id] for plan in plans], is_left=True),
            *apart,
            *_strongest_columns(found),
        ],
        settings=together,
        styles=["bold red" if record.violation else "" for record, _ in found],
    )


def _strongest_columns(found: Sequence[tuple[TrialRecord, Strongest]]) -> list[Column]:
    records = [record for record, _ in found]

    def column(
        head: str, write: Callable[[TrialRecord], str], *, worth: int, legend: str = ""
    ) -> Column:
        return Column(head=head, cells=[write(r) for r in records], worth=worth, legend=legend)

    rates = ["-" if best.inverted else _rate(record, best.attack) for record, best in found]
    change = "Δ % to the baseline, * significant"
    columns = [
        Column(
            head="strongest",
            cells=[Text(f"{100 * best.value:.1f}", style="bold") for _, best in found],
            legend="strongest: the best attack, its interval for all attacks together",
        ),
        Column(
            head="95 %",
            cells=[f"{100 * best.low:.1f}-{100 * best.high:.1f}" for _, best in found],
            worth=90,
        ),
        Column(head="by", cells=[_name(best) for _, best in found], worth=80, is_left=True),
        Column(
            head="TPR",
            cells=rates,
            worth=60,
            legend="TPR: at 1 % FPR, of the strongest (~ low resolution)",
        ),
        column("ΔSER", lambda r: _change(r, "ser"), worth=50, legend=change),
        column("ΔMIA", lambda r: _change(r, "mia"), worth=55, legend=change),
        column(
            "blind",
            _blind,
            worth=45,
            legend="blind: an attack without the model, expected at 50",
        ),
    ]
    if not any("epsilon_lower_bound" in record.metrics for record in records):
        return columns
    # The certified bounds of the one-run audits together, beside the claims.
    bounds = [formats.lower_bound(record.metrics.get("epsilon_lower_bound")) for record in records]
    claims = [
        formats.epsilon(record.metrics.get(audited(record.plan.config.data.split)))
        for record in records
    ]
    legend = "ε ≥: certified for all trials together"
    return [
        *columns,
        Column(head="ε ≥", cells=bounds, worth=95, legend=legend),
        Column(head="claimed", cells=claims, worth=94),
    ]


def violations(records: Sequence[TrialRecord]) -> list[str]:
    """A sentence for each trial whose certified bound exceeds its claim."""
    return [
        f"privacy violation: {record.plan.id} claims epsilon"
        f" {formats.epsilon(record.violation['epsilon_claimed'])} and its records certify at least"
        f" {formats.lower_bound(record.violation['epsilon_lower_bound'])}: {record.plan.name}"
        for record in records
        if record.violation is not None
    ]


def _name(best: Strongest) -> str:
    return _SHORT.get(best.attack, best.attack) + (" inverted" if best.inverted else "")


def _blind(record: TrialRecord) -> str:
    value, low, high = (
        record.metrics.get(f"{auc_of('blind')}{end}") for end in ("", "_low", "_high")
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


# Metric, its short head, and whether it has a ceiling of human text.
COLUMNS = (
    ("word_type_overlap", "words", True),
    ("function_type_overlap", "functions", True),
    ("function_top50", "top 50", True),
    ("chi_square", "chi²", True),
    ("mauve", "MAUVE", True),
    ("fluency_loss", "loss", False),
    ("parse_valid_rate", "parses", False),
    (figures.EPSILON, "epsilon", False),
)
_LEGENDS = {
    "words": "words, functions: share of the human types that occur",
    "chi²": "chi²: 0 is equal",
    "loss": "loss: nats per token under the public model",
    "parses": "parses: share of drawn programs that read",
}
_HUMAN = "human: one half against the other"


def synthesis_table(records: Sequence[TrialRecord]) -> FittedTable | None:
    """Figures of generated text, the human ceiling in the last row; None without such a trial."""
    made = [
        record
        for record in records
        if record.status.is_finished and "word_type_overlap" in record.metrics
    ]
    if not made:
        return None
    names = [record.plan.name for record in made]
    columns = [
        Column(
            head=head,
            cells=[
                *(formats.figure(name, select.value(record, name)) for record in made),
                formats.figure(name, made[0].metrics.get(f"{name}_human_ceiling"))
                if ceiling
                else "-",
            ],
            worth=100 if name in ("mauve", figures.EPSILON) else 50 - place,
            legend=_LEGENDS.get(head, ""),
        )
        for place, (name, head, ceiling) in enumerate(COLUMNS)
    ]
    return FittedTable(
        title="generated text",
        columns=[
            Column(head="trial", cells=[*names, _HUMAN], is_text=True, at_least=16),
            *columns,
        ],
        styles=[*("" for _ in made), "dim"],
    )
