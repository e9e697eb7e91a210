"""The results of a sweep as tables, from plain data, fitted to the width of their
output: trials, repeats, attacks for the curator, and generated text as Table 1 of
Mireshghallah et al. 2022. Pure.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from rich.text import Text

from search_spaces.expansion import rank
from search_spaces.paths import label
from sweep.results import frame, select
from sweep.results.tables.axes import setting_columns, trial_columns, varied_paths
from sweep.results.tables.fitting import Column, FittedTable
from sweep.store.state import TrialStatus
from sweep.store.sweeps import TrialRecord
from trainables import figures, formats
from trainables.attacks import Strongest, auc_of, audited, strongest
from trainables.errors import InvalidInput, did_you_mean
from trainables.metrics.generation import WITHOUT_RECORDS
from trainables.metrics.text_space import MAUVE

STYLES = {
    TrialStatus.DONE: "green",
    TrialStatus.STOPPED: "yellow",
    TrialStatus.FAILED: "red",
    TrialStatus.REFUSED: "dim",
    TrialStatus.RUNNING: "cyan",
    TrialStatus.INTERRUPTED: "yellow",
    TrialStatus.PLANNED: "dim",
}
_EXPLAINED = (
    TrialStatus.FAILED,
    TrialStatus.STOPPED,
    TrialStatus.REFUSED,
)  # with their reason
_REASONS = 20  # of them below a table
_Row = TypeVar("_Row")


def results_table(
    name: str,
    records: Sequence[TrialRecord],
    *,
    max_rows: int | None = None,
    answers: Collection[str] = (),
    sort: str | None = None,
) -> FittedTable:
    """The results relative to the baseline, SER with its 95 % interval over test
    utterances, the best first or in the order of `sort`, a figure or an axis. A star
    marks the front of SER (or MAUVE) and epsilon, an arrow the trials `answers`. With
    more trials than `max_rows`, that many: baselines, answers, the front, then the
    best.

    Raises: InvalidInput for a `sort` that no trial has.
    """
    main = select.headline(records)
    rows = _select_rows(frame.rows(records), answers, main, max_rows)
    rows.sort(key=_order(records, sort or main))
    shown = [row.record for row in rows]
    leading, together = trial_columns(
        [r.plan for r in shown], [r.plan for r in records]
    )
    stars = _column(
        "",
        rows,
        lambda row: (
            ("→" if row.record.plan.id in answers else "")
            + ("*" if row.pareto_optimal else "")
        ),
        name="front",
        legend=f"→ the answer · * on the front of {figures.label(main)} and epsilon",
    )
    numbers = {
        status: sum(r.status is status for r in records) for status in TrialStatus
    }
    known = [f"{number} {status}" for status, number in numbers.items() if number]
    reasons = [
        f"{short_id} {record.status}: {record.reason}"
        for short_id, record in zip(leading[0].cells, shown, strict=True)
        if record.reason and record.status in _EXPLAINED
    ]
    if len(reasons) > _REASONS:
        reasons[_REASONS:] = [f"and {len(reasons) - _REASONS} more"]
    status = _column(
        "status",
        shown,
        lambda r: Text(r.status, STYLES[r.status]),
        worth=90,
        is_left=True,
    )
    differ = len({record.status for record in shown}) > 1
    return FittedTable(
        title=f"{name}: {', '.join(known) or 'no trials'}",
        columns=[
            stars,
            *leading,
            *([status] if differ else []),
            *_figures(rows, main),
        ],
        settings=together,
        notes=reasons,
        styles=["bold" if record.plan.id in answers else "" for record in shown],
    )


def _figures(rows: Sequence[frame.Row], main: str) -> list[Column]:
    """Figures of trials relative to their baselines and the prior."""
    records = [row.record for row in rows]
    names = list({row.baseline.plan.variant for row in rows if row.baseline})
    times = f"×: times {names[0] if len(names) == 1 else 'the nearest baseline'}"

    def figure(metric: str, head: str, **options: Any) -> Column:
        return _column(head, records, lambda record: _cell(record, metric), **options)

    def ratio(metric: str, words: str, *, worth: int) -> Column:
        def write(row: frame.Row) -> str:
            is_running = metric == "seconds" and not row.record.status.is_finished
            return "" if is_running else _times(row.ratios.get(metric))

        return _column(f"{words} ×", rows, write, worth=worth, legend=times)

    def epsilon(record: TrialRecord) -> str:
        prior = " (prior)" if select.is_prior(record) else ""
        return _cell(record, figures.EPSILON) + prior

    def seconds(record: TrialRecord) -> str:
        is_known = record.status.is_finished or record.seconds
        return formats.duration(record.seconds if is_known else None)

    def interval(
        record: TrialRecord,
    ) -> str:  # which does not compare trials with each other
        bounds = select.interval_of(record) if main == "ser" else None
        return f"{bounds[0]:.3f}-{bounds[1]:.3f}" if bounds else ""

    is_noised = any(record.plan.covers_all for record in records)
    noised = "SER: of at most 3 errors a record, with noise (privacy.covers=all)"
    return [
        figure(main, figures.label(main), legend=noised if is_noised else ""),
        _column("95 %", records, interval, worth=30),
        ratio(main, figures.label(main), worth=60),
        _column(
            "Δ %",
            records,
            lambda record: _change(record, "ser"),
            worth=55,
            name="change of SER",
            legend=f"Δ %: change of SER from {times[9:]}, * significant",
        ),
        _column(
            "of ε = 0",
            rows,
            lambda row: _times(row.prior_ratio),
            worth=50,
            legend="of ε = 0: times the error without any private record",
        ),
        figure(
            figures.LEAKAGE,
            figures.LEAKAGE,
            worth=70,
            legend="leakage: AUC of the strongest attack, curator only",
        ),
        ratio(figures.LEAKAGE, "AUC", worth=20),
        _column("epsilon", records, epsilon),
        figure(
            figures.EPSILON_PAPER,
            "paper",
            worth=35,
            legend="paper: epsilon by the paper's formula, no guarantee",
        ),
        _column("time", records, seconds, worth=45),
        _column(
            "training",
            records,
            lambda record: formats.duration(record.metrics.get("seconds_train")),
            worth=43,
            legend="time: of the whole trial · training: of its epochs alone",
        ),
        ratio("seconds", "time", worth=10),
    ]


def _column(
    head: str, rows: Sequence[_Row], write: Callable[[_Row], str | Text], **options: Any
) -> Column:
    """A column of what is written of each row."""
    return Column(head=head, cells=[write(row) for row in rows], **options)


def _select_rows(
    rows: list[frame.Row],
    answers: Collection[str],
    metric: str,
    max_rows: int | None,
) -> list[frame.Row]:
    """The rows of a table."""
    if max_rows is None or len(rows) <= max_rows:
        return rows

    def place(row: frame.Row) -> tuple[bool, bool, float]:
        is_first = row.record.plan.baseline or row.record.plan.id in answers
        return not is_first, not row.pareto_optimal, _cost(row.record, metric)

    return sorted(rows, key=place)[:max_rows]


def _cost(record: TrialRecord, metric: str) -> float:
    """A finished trial's figure, by which smaller is better; infinite without one."""
    value = select.value(record, metric) if record.status.is_finished else None
    return math.inf if value is None else figures.cost(metric, value)


def _order(
    records: Sequence[TrialRecord], sort: str
) -> Callable[[frame.Row], tuple[float, str]]:
    """The key of an order: by a figure the best first, by an axis its values.

    Raises: InvalidInput for what is neither.
    """
    if any(select.value(record, sort) is not None for record in records):
        return lambda row: (_cost(row.record, sort), "")
    paths = {path for record in records for path in record.plan.values}
    path = next((path for path in sorted(paths) if sort in (path, label(path))), None)
    if path is None and sort != select.headline(records):
        known = {name for record in records for name in record.metrics} | {"seconds"}
        near = did_you_mean(sort, [*known, *paths])
        raise InvalidInput(
            f"expected --sort by a figure or an axis, got {sort!r}{near}"
        )

    def key(row: frame.Row) -> tuple[float, str]:
        value = row.record.plan.values.get(path or "")
        place = rank(value)
        return (math.inf, str(value)) if place is None else (place, "")

    return key


def group_table(
    records: Sequence[TrialRecord], *, max_rows: int | None = None
) -> FittedTable | None:
    """Mean and spread over seeds; None where no trial was repeated. With more groups
    than `max_rows`, that many of the best.
    """
    found = [group for group in select.groups(records) if len(group.records) > 1]
    if not found:
        return None
    if max_rows is not None and len(found) > max_rows:
        kept = {
            group.key
            for group in select.rank_groups(found, select.headline(records))[:max_rows]
        }
        found = [group for group in found if group.key in kept]
    known = {name for record in records for name in record.metrics}
    listed = (name for name in figures.listed_figures() if name in known)
    names = tuple(
        dict.fromkeys(
            (select.headline(records), figures.LEAKAGE, figures.EPSILON, *listed)
        )
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
    return formats.figure(name, select.value(record, name)) + (
        " inverted" if inverted else ""
    )


def _spread(name: str, spread: select.MeanStd | None) -> str:
    if spread is None:
        return "-"
    around = "" if spread.std is None else f" ± {formats.number(spread.std)}"
    return f"{formats.figure(name, spread.mean)}{around} ({spread.count})"


_SHORT = {"loss_threshold": "loss", "calibrated": "calibr.", "shadow": "shadow (paper)"}


def leakage_table(records: Sequence[TrialRecord]) -> FittedTable | None:
    """The results of attacks on each finished trial; None where no attack ran.

    The strongest attack's interval holds for all attacks together.
    """
    found = [
        (r, best)
        for r in records
        if r.status.is_finished and (best := strongest(r.metrics))
    ]
    if not found:
        return None
    plans = [record.plan for record, _ in found]
    leading, together = trial_columns(plans, [record.plan for record in records])
    return FittedTable(
        title="leakage: AUC in % with 95 % (curator only)",
        columns=[*leading, *_strongest_columns(found)],
        settings=together,
        styles=["bold red" if record.violation else "" for record, _ in found],
    )


def _strongest_columns(found: Sequence[tuple[TrialRecord, Strongest]]) -> list[Column]:
    def column(
        head: str, write: Callable[[TrialRecord, Strongest], str | Text], **options: Any
    ) -> Column:
        return _column(head, found, lambda row: write(*row), **options)

    def claim(record: TrialRecord, _: Strongest) -> str:
        return formats.epsilon(
            record.metrics.get(audited(record.plan.config.data.split))
        )

    change = "Δ % to the baseline, * significant"
    columns = [
        column(
            "strongest",
            lambda _, best: Text(f"{100 * best.value:.1f}", "bold"),
            legend="strongest: the best attack, its interval for all attacks together",
        ),
        column(
            "95 %",
            lambda _, best: f"{100 * best.low:.1f}-{100 * best.high:.1f}",
            worth=90,
        ),
        column("by", lambda _, best: _name(best), worth=80, is_left=True),
        column(
            "TPR",
            _rate,
            worth=60,
            legend="TPR: at 1 % FPR, of the strongest (~ low resolution)",
        ),
        column(
            "ΔMIA", lambda record, _: _change(record, "mia"), worth=55, legend=change
        ),
        column(
            "blind",
            lambda record, _: _blind(record),
            worth=45,
            legend="blind: an attack without the model, expected at 50",
        ),
    ]
    if not any("epsilon_lower_bound" in record.metrics for record, _ in found):
        return columns
    # The certified bounds of the one-run audits together, beside the claims.
    return [
        *columns,
        column(
            "ε ≥",
            lambda record, _: formats.lower_bound(
                record.metrics.get("epsilon_lower_bound")
            ),
            worth=95,
            legend="ε ≥: certified for all trials together",
        ),
        column("claimed", claim, worth=94),
    ]


def taken_over(records: Sequence[TrialRecord]) -> list[str]:
    """A sentence for each other sweep that has trained some of the trials."""
    names = [r.taken_from.rpartition("@")[0] for r in records if r.taken_from]
    return [
        f"{formats.count(number, 'trial')} taken over from {name}, which has paid for"
        f" {'it' if number == 1 else 'them'}: counted in the epsilon of this sweep, and"
        " once in that of the data set"
        for name, number in Counter(names).items()
    ]


def violations(records: Sequence[TrialRecord]) -> list[str]:
    """A sentence for each trial whose certified bound exceeds its claim."""
    return [
        f"privacy violation: {record.plan.id} claims epsilon"
        f" {formats.epsilon(record.violation['epsilon_claimed'])} and its records"
        f" certify at least"
        f" {formats.lower_bound(record.violation['epsilon_lower_bound'])}:"
        f" {record.plan.name}"
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


def _rate(record: TrialRecord, best: Strongest) -> str:
    share = record.metrics.get(f"mia_{best.attack}_tpr_1pct")
    coarse = record.metrics.get(f"mia_{best.attack}_tpr_1pct_low_resolution")
    return (
        "-"
        if share is None or best.inverted
        else f"{'~' if coarse else ''}{100 * share:.1f}"
    )


def _change(record: TrialRecord, what: str) -> str:
    value = record.metrics.get(f"delta_{what}_percent")
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 100 else 1
    return f"{value:+.{digits}f}{'*' if record.metrics.get(f'delta_{what}_significant') else ''}"


# Metric, its short head, and its legend.
COLUMNS = (
    (
        "word_type_overlap",
        "words",
        "words, functions: share of the human types that occur",
    ),
    ("function_type_overlap", "functions", ""),
    ("function_top50", "top 50", ""),
    ("chi_square", "chi²", "chi²: 0 is equal"),
    (MAUVE, "MAUVE", ""),
    ("fluency_loss", "loss", "loss: nats per token under the public model"),
    ("parse_valid_rate", "parses", "parses: share of drawn programs that read"),
    (figures.EPSILON, "epsilon", ""),
)
_HUMAN = "human: one half against the other"


def synthesis_table(records: Sequence[TrialRecord]) -> FittedTable | None:
    """Figures of generated text, below them those of text at epsilon 0 and of people;
    None without such a trial.
    """
    made = [
        record
        for record in records
        if record.status.is_finished and "word_type_overlap" in record.metrics
    ]
    if not made:
        return None
    names = [record.plan.name for record in made]
    known = made[0].metrics
    others = [*(f"epsilon 0: {words}" for words in WITHOUT_RECORDS.values()), _HUMAN]
    columns = [
        Column(
            head=head,
            cells=[
                *(formats.figure(name, select.value(record, name)) for record in made),
                *(
                    formats.figure(name, known.get(f"{name}_{kind}"))
                    for kind in (*WITHOUT_RECORDS, "human_ceiling")
                ),
            ],
            worth=100 if name in (MAUVE, figures.EPSILON) else 50 - place,
            legend=legend,
        )
        for place, (name, head, legend) in enumerate(COLUMNS)
    ]
    return FittedTable(
        title="generated text",
        columns=[
            Column(head="trial", cells=[*names, *others], is_text=True, at_least=16),
            *columns,
        ],
        styles=[*("" for _ in made), *("dim" for _ in others)],
    )
