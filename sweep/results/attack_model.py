"""Membership attacks on a saved model, with records of known membership."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from sweep.results.exported import require_export
from trainables import attacks, saved
from trainables.attacks import Knowledge, _panel
from trainables.config.trial import data_config
from trainables.data.records import Utterance
from trainables.errors import InvalidInput


def attack_run(
    folder: Path,
    members: Path | None,
    non_members: Path | None,
    *,
    delta: float | None,
    factory: str | None,
) -> dict[str, Any]:
    """Figures and notes of the attacks that need only the model. Records with a label
    that the model lacks are left out, and so are those in both files. `delta` None:
    1e-5.

    Raises: InvalidInput for a folder or files that cannot be used; fewer than 5 records
    on a side.
    """
    require_export(folder)
    if members is None or non_members is None:
        raise InvalidInput(
            f"expected --members FILE and --non-members FILE for {folder}"
        )
    model = saved.load(folder, factory=factory)
    sides = [_read(path) for path in (members, non_members)]
    both = {each.tokens for each in sides[0]} & {each.tokens for each in sides[1]}
    kept = [[each for each in side if each.tokens not in both] for side in sides]
    records = [*kept[0], *kept[1]]
    if not records:
        raise InvalidInput("expected members that are not also non-members, got none")
    known = saved.columns_of(records, schema=model.schema).outside == 0
    notes = []
    if both:
        notes.append(f"{len(both)} utterances are in both files and were left out")
    if not known.all():
        notes.append(f"{int((~known).sum())} records have labels that the model lacks")
    member = (np.arange(len(records)) < len(kept[0]))[known]
    few = min(int(member.sum()), int((~member).sum()))
    if few < 5:
        raise InvalidInput(
            f"expected at least 5 records in each file, got {few} that can be used"
        )
    chosen = list(itertools.compress(records, known))
    predicted = model.read(chosen)
    signals = attacks.gather(
        records=np.arange(len(chosen)),
        member=member,
        mode="official",
        features=predicted.features,
        log_confidence=predicted.log_confidence,
    )
    columns = saved.columns_of(chosen, schema=model.schema)
    lengths = np.diff(columns.offsets)
    texts = attacks.bag_of_words(columns.tokens, lengths, num_types=len(columns.types))
    knowledge = Knowledge(texts=texts)
    possible = _panel.possible(signals, knowledge, sampling="shuffle")
    scores = _panel.record_scores(signals, knowledge, attacks=possible)
    figures = _panel.panel(signals, scores, delta=1e-5 if delta is None else delta)
    if figures["mia_blind_auc_low"] > 0.5:
        notes.append(
            f"the files distinguish members without any model (blind AUC"
            f" {figures['mia_blind_auc']:.3f}): the other figures may not concern the"
            f" model"
        )
    return figures | ({"notes": notes} if notes else {})


def _read(path: Path) -> list[Utterance]:
    return list(data_config(name="json_lines", path=str(path)).read(path))
