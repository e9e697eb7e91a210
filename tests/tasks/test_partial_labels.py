"""Corpora of intents alone and of slots alone: trained, measured and attacked as any
other.
"""

import itertools
import json

import pytest

from tests.lines import write_lines
from tests.metrics.nlu_scores import score
from tests.tasks.test_nlu_trial import config, run
from trainables.data.records import Frame

NAMES = [
    f"{a}{b}" for a, b in itertools.product("bcdfgklm", ("an", "ob", "ed", "it", "us"))
]


def corpus(folder, kind):
    rows = []
    for verb, name in itertools.product(("call", "ring", "play"), NAMES):
        row = {"tokens": [verb, name]}
        if kind == "intents":
            row["intent"] = "play" if verb == "play" else "call"
        else:
            row["tags"] = ["O", "B-song" if verb == "play" else "B-contact"]
        rows.append(row)
    write_lines(folder / "utterances.jsonl", rows)
    labels = {"intents": {"intents": ["call", "play"], "slots": []}}
    labels["slots"] = {"intents": [], "slots": ["contact", "song"]}
    (folder / "schema.json").write_text(json.dumps(labels[kind]))


HEADS = {"name": "features", "encoder": "dialogues", "layers": [2]}


@pytest.mark.parametrize("kind", ["intents", "slots"])
@pytest.mark.parametrize("fields", [{}, {"model": HEADS}], ids=["clc", "features"])
def test_what_is_not_annotated_has_no_figure(tmp_path, kind, fields):
    corpus(tmp_path, kind)
    result, reports = run(tmp_path, tmp_path / "trial", config("dp_sgd", **fields))
    metrics = result.metrics
    assert 0 <= (metrics["ser"] or 0) <= 2
    assert metrics["mia_loss_threshold_auc"] is not None
    without = {"intents": "slot_f1", "slots": "intent_accuracy"}[kind]
    assert {"intents": "intent_accuracy", "slots": "slot_f1"}[kind] in metrics
    assert without not in metrics
    assert not any(f"validation_{without}" in report.metrics for report in reports)


def test_without_intents_ser_is_the_slot_error_rate():
    right = [Frame("", (("who", 0, 1),)), Frame("", ())]
    guess = [Frame("", (("what", 0, 1),)), Frame("", ())]
    found = score(right, guess, bootstrap_samples=0)
    assert found["ser"] == 2.0  # one slot deleted and one inserted, of one
    with_intents = [Frame("x", frame.slots) for frame in right]
    guessed = [Frame("x", frame.slots) for frame in guess]
    assert score(with_intents, guessed, bootstrap_samples=0)["ser"] == pytest.approx(
        2 / 3
    )
    assert score(right, right, bootstrap_samples=0)["f_ser"] == 0.0
