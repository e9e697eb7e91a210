"""What attacks found of each trial, as a table for the curator. Plain data in, Rich tables out."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from sweep.results import select
from sweep.store.sweeps import TrialRecord
from trainables import formats
from trainables.attacks import Strongest, auc_of, strongest

_SHORT = {"loss_threshold": "loss", "calibrated": "calibr.", "shadow": "shadow (paper)"}


def leakage_table(records: Sequence[TrialRecord]) -> Table | None:
    """What attacks found of each finished trial; None where no attack ran.

    The strongest attack's interval holds for all attacks together, the others' each alone.
    """
    found = [(r, best) for r in records if r.status.is_finished and (best := strongest(r.metrics))]
    if not found:
        return None
    names = sorted({name for record, _ in found for name in select.attacks_of(record)})
    certified = any("epsilon_lower_bound" in record.metrics for record, _ in found)
    table = Table(
        title="leakage: AUC in % with 95 % (curator only)",
        caption="strongest: the best attack, its interval for all attacks together · inverted:"
        " members score lower, 100 less the AUC leaks · TPR: at 1 % FPR, of the strongest"
        " (~ low resolution) · blind sees no model and should be at 50 · Δ % to the baseline,"
        " * significant" + (" · ε ≥: certified for all trials together" if certified else ""),
        box=box.SIMPLE_HEAD,
        padding=(0, 0),
        pad_edge=False,
    )
    table.add_column("trial", overflow="fold", min_width=16)
    heads = ("strongest", *(_SHORT.get(name, name) for name in names), "TPR", "blind")
    for column in (*heads, "ΔSER", "ΔMIA", *(("ε ≥", "claimed") if certified else ())):
        table.add_column(column, justify="right", no_wrap=True)
    for record, best in found:
        cells: list[Text | str] = [
            Text(_strongest(best), style="bold"),
            *(_area(record, name) for name in names),
            "-" if best.inverted else _rate(record, best.attack),
            _area(record, "blind"),
            _change(record, "ser"),
            _change(record, "mia"),
        ]
        if certified:
            paired = record.plan.config.data.split == "paired"
            claim = "epsilon_replace_one" if paired else "epsilon"
            cells += [
                formats.number(record.metrics.get("epsilon_lower_bound")),
                formats.epsilon(record.metrics.get(claim)),
            ]
        table.add_row(
            Text(record.plan.name), *cells, style="bold red" if record.violation else None
        )
    return table


def violations(records: Sequence[TrialRecord]) -> list[str]:
    """A sentence for each trial whose certified bound exceeds its claim."""
    return [
        f"privacy violation: {record.plan.id} claims epsilon"
        f" {formats.epsilon(record.violation['epsilon_claimed'])} and its records certify at least"
        f" {formats.number(record.violation['epsilon_lower_bound'])}: {record.plan.name}"
        for record in records
        if record.violation is not None
    ]


def _strongest(best: Strongest) -> str:
    name = _SHORT.get(best.attack, best.attack) + (" inverted" if best.inverted else "")
    return f"{100 * best.value:.1f} ({100 * best.low:.1f}-{100 * best.high:.1f}) {name}"


def _area(record: TrialRecord, attack: str) -> str:
    value, low, high = (
        record.metrics.get(f"{auc_of(attack)}{end}") for end in ("", "_low", "_high")
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
