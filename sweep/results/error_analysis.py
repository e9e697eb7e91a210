"""The errors of a trial on its test records, read again with its saved model, and what
its baseline has right. For the curator alone: no epsilon covers what the test records
show.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from sweep.results import frame
from sweep.results.comparison import Side
from sweep.results.exported import require_export
from sweep.results.label_errors import (
    Confusion,
    LabelScore,
    confusions,
    label_scores,
    lost,
)
from sweep.results.tables.fitting import Column, FittedTable
from sweep.settings import Settings
from sweep.store.data_sets import open_data
from sweep.store.files import write_text
from trainables import formats, saved
from trainables.data.records import Frame, Utterance
from trainables.data.split import split_of
from trainables.errors import InvalidInput

NOTE = (
    "For the curator alone: no epsilon covers what test records show. They stay on this"
    " machine, and MLflow has none of them."
)
_MOST_ROWS = 12


@dataclass(frozen=True, kw_only=True)
class LostUtterance:
    """A test record that the baseline has right and the model has not: private text."""

    tokens: tuple[str, ...]
    reference: Frame
    predicted: Frame

    def to_dict(self) -> dict[str, object]:
        """Plain data: the frames in the format of `sweep score`, both sides."""
        return {"text": " ".join(self.tokens)} | {
            side: {"intent": given.intent, "slots": self._spans(given)}
            for side, given in (
                ("reference", self.reference),
                ("predicted", self.predicted),
            )
        }

    def _spans(self, given: Frame) -> list[dict[str, object]]:
        return [
            {"slot": name, "text": " ".join(self.tokens[start:end])}
            for name, start, end in given.slots
        ]


@dataclass(frozen=True, kw_only=True)
class ErrorAnalysis:
    """Scores by label and confusions of `side` on `num_records` test records, and
    against `baseline`, where there is one, its F1 by kind and label and the utterances
    that `side` has lost.
    """

    side: str
    num_records: int
    scores: Sequence[LabelScore]
    confusions: Sequence[Confusion]
    baseline: str | None = None
    baseline_f1: Mapping[tuple[str, str], float] = field(default_factory=dict)
    lost: Sequence[LostUtterance] = ()

    def to_json(self) -> dict[str, object]:
        """The counts, without the text of a record."""
        return {
            "trial": self.side,
            "baseline": self.baseline,
            "num_records": self.num_records,
            "labels": [
                asdict(each)
                | {"baseline_f1": self.baseline_f1.get((each.kind, each.label))}
                for each in self.scores
            ],
            "confusions": [asdict(each) for each in self.confusions],
            "num_lost": len(self.lost),
        }


def analyse(
    side: Side, settings: Settings, *, against: Side | None = None
) -> ErrorAnalysis:
    """Predict the test records anew with the trial's saved model and with that of
    `against`; by default of the trial's own baseline, where it has one.

    Raises: InvalidInput for a trial that is no model of intents and slots, has no
    saved model, or was tested on other records than its baseline; InvalidData where its
    files are damaged.
    """
    if side.record.plan.task != "nlu":
        raise InvalidInput(
            f"expected a trial of intents and slots, got {side.name}, which has the"
            f" task {side.record.plan.task}"
        )
    if against is None:
        own = side.record.plan.id
        rows = frame.rows(side.folder.records())
        baseline = next(row.baseline for row in rows if row.record.plan.id == own)
        if baseline is not None and baseline.status.is_finished:
            against = Side(folder=side.folder, record=baseline)
    config = side.record.plan.config
    if against is not None and against.record.plan.config.data != config.data:
        raise InvalidInput(
            f"expected a baseline with the data of {side.name}, got {against.name}"
        )
    corpus = open_data(config.data, settings)
    test = split_of(config, corpus).test
    reference, tokens = corpus.frames(test), corpus.token_sequences(test)
    texts = [saved.unlabelled(each) for each in tokens]
    predicted = _predicted(side, texts)
    found = ErrorAnalysis(
        side=side.name,
        num_records=len(test),
        scores=label_scores(reference, predicted),
        confusions=confusions(reference, predicted),
    )
    if against is None:
        return found
    before = _predicted(against, texts)
    return replace(
        found,
        baseline=against.name,
        baseline_f1={
            (each.kind, each.label): each.f1 for each in label_scores(reference, before)
        },
        lost=[
            LostUtterance(
                tokens=tokens[n], reference=reference[n], predicted=predicted[n]
            )
            for n in lost(reference, before, predicted)
        ],
    )


def _predicted(side: Side, texts: Sequence[Utterance]) -> list[Frame]:
    place = side.folder.trial_folder(side.record.plan.id)
    require_export(place)
    model = saved.load(place, factory=side.record.plan.fields["model"].get("factory"))
    return model.read(texts).frames(model.schema)


def write_lost(found: ErrorAnalysis, path: Path) -> None:
    """Write the lost utterances as JSON lines, for their owner's eyes.

    Raises: InvalidInput where `path` exists.
    """
    if path.exists():
        raise InvalidInput(f"expected --to to be a new file, got {path}, which exists")
    lines = [json.dumps(each.to_dict(), ensure_ascii=False) for each in found.lost]
    write_text(path, "".join(f"{line}\n" for line in lines))


def tables(found: ErrorAnalysis, *, every: bool = False) -> list[FittedTable]:
    """Scores by label, the worst first, and confusions; the first rows of each unless
    `every`.
    """
    worst = sorted(found.scores, key=lambda s: (s.f1 - 1) * s.places)
    most = None if every else _MOST_ROWS
    scores, confused = worst[:most], found.confusions[:most]
    base = [found.baseline_f1.get((each.kind, each.label)) for each in scores]
    by_label = [
        Column(head="kind", cells=[s.kind for s in scores], is_text=True),
        Column(head="label", cells=[s.label for s in scores], is_text=True),
        Column(head="places", cells=[str(s.places) for s in scores]),
        *(
            Column(head=name, cells=[f"{getattr(s, name):.3f}" for s in scores])
            for name in ("f1", "precision", "recall")
        ),
        Column(
            head="baseline f1",
            cells=["-" if each is None else f"{each:.3f}" for each in base],
        ),
    ]
    of_pairs = [
        Column(head="kind", cells=[c.kind for c in confused], is_text=True),
        Column(head="reference", cells=[c.reference for c in confused], is_text=True),
        Column(head="predicted", cells=[c.predicted for c in confused], is_text=True),
        Column(head="count", cells=[str(c.count) for c in confused]),
    ]
    return [
        FittedTable(
            title=f"{found.side}: labels by the errors they cost,"
            f" {formats.count(found.num_records, 'test record')}",
            columns=by_label,
            notes=_rest(len(found.scores), len(scores), "label"),
        ),
        FittedTable(
            title="What is predicted in place of what (- is no slot)",
            columns=of_pairs,
            notes=_rest(len(found.confusions), len(confused), "confusion"),
        ),
    ]


def _rest(number: int, shown: int, noun: str) -> list[str]:
    return [f"of {formats.count(number, noun)}; all: --all"] if shown < number else []
