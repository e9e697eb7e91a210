"""Tasks: training and evaluation of trials.

An entry is a `task` of configs: `run` trains and measures one trial, `probe` measures
the cost of its pieces. What the rest of the house must know of it stands in the list.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Task:
    """The kinds of the entries that a task uses, and the figures that its trials are
    ranked by.

    `generation` is whether it generates text. `best_by` compares trials, `best_released`
    those that cover every record, `otherwise_by` where that is missing; a scheduler
    compares `after_an_epoch`; `headline` represents a trial in tables, in a frame beside
    the figures `columns`.
    """

    datasets: str
    models: str
    generation: bool = False
    best_by: str
    best_released: str | None = None
    otherwise_by: str
    after_an_epoch: str
    headline: str
    columns: tuple[str, ...] = ()


ENTRIES = {
    "nlu": Task(
        datasets="frames",
        models="frames",
        best_by="validation_ser",
        best_released="validation_errors",
        otherwise_by="ser",
        after_an_epoch="validation_ser",
        headline="ser",
        columns=(
            "ser_low",
            "ser_high",
            "ser_ratio",
            "delta_ser_percent",
            "intent_accuracy",
            "slot_f1",
        ),
    ),
    "synthesis": Task(
        datasets="pairs",
        models="text",
        generation=True,
        best_by="mauve_states",
        otherwise_by="word_type_overlap",
        after_an_epoch="validation_loss",
        headline="mauve_states",
        columns=(
            "mauve_states_human_ceiling",
            "mauve_states_ratio",
            "ngram_similarity",
            "word_type_overlap",
            "function_type_overlap",
            "fluency_loss",
        ),
    ),
}
DEFAULT = "nlu"
