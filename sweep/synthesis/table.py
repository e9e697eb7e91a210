"""What synthesis trials made, as the table of Mireshghallah et al. 2022 (their Table 1)."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from sweep.results import select
from sweep.store.sweeps import TrialRecord
from trainables import formats

# Metric, what a column has room for, whether human text has a ceiling of it.
COLUMNS = (
    ("word_type_overlap", "words", True),
    ("function_type_overlap", "functions", True),
    ("function_top50", "top 50", True),
    ("chi_square", "chi²", True),
    ("mauve", "MAUVE", True),
    ("fluency_loss", "loss", False),
    ("parse_valid_rate", "parses", False),
    ("epsilon", "epsilon", False),
)


def synthesis_table(records: Sequence[TrialRecord]) -> Table | None:
    """Figures of generated text, the human ceiling in the last row; None without such a trial."""
    made = [
        record
        for record in records
        if record.status.is_finished and "word_type_overlap" in record.metrics
    ]
    if not made:
        return None
    table = Table(
        title="generated text",
        caption="words, functions: share of the human types that occur · chi²: 0 is equal · loss:"
        " nats a token under the public model · parses: share of drawn programs that read",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        pad_edge=False,
    )
    table.add_column("trial", overflow="fold", min_width=16)
    for _, head, _ in COLUMNS:
        table.add_column(head, justify="right", no_wrap=True)
    for record in made:
        table.add_row(
            Text(record.plan.name),
            *(formats.figure(name, select.value(record, name)) for name, _, _ in COLUMNS),
        )
    table.add_row(
        Text("human: one half against the other"),
        *(
            formats.figure(name, made[0].metrics.get(f"{name}_human_ceiling")) if ceiling else "-"
            for name, _, ceiling in COLUMNS
        ),
        style="dim",
    )
    return table
