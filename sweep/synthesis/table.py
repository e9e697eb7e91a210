"""The table of synthesis trials, as Table 1 of Mireshghallah et al. 2022."""

from __future__ import annotations

from collections.abc import Sequence

from sweep.results import select
from sweep.results.tables.fitting import Column, FittedTable
from sweep.store.sweeps import TrialRecord
from trainables import formats
from trainables.figures import EPSILON

# Metric, its short head, and whether it has a ceiling of human text.
COLUMNS = (
    ("word_type_overlap", "words", True),
    ("function_type_overlap", "functions", True),
    ("function_top50", "top 50", True),
    ("chi_square", "chi²", True),
    ("mauve", "MAUVE", True),
    ("fluency_loss", "loss", False),
    ("parse_valid_rate", "parses", False),
    (EPSILON, "epsilon", False),
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
            worth=100 if name in ("mauve", EPSILON) else 50 - place,
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
