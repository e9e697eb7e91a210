"""The results of attacks as a table for the curator. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text

from sweep.results.tables.axes import setting_columns, short_ids, varied_paths
from sweep.results.tables.fitting import Column, FittedTable
from sweep.store.sweeps import TrialRecord
from trainables import formats
from trainables.attacks import Strongest, auc_of, audited, strongest

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
