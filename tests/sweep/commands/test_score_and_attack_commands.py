"""`sweep score` and `sweep attack` on users' files: figures, and refusals that quote nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

SECRET = "zanzibar"
RIGHT = {"text": f"fly to {SECRET}", "intent": "flight", "slots": [["to", 2, 3]]}
WRONG = {"text": f"fly to {SECRET}", "intent": "flight", "slots": [["to", 1, 3]]}


def _write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def _score(line, tmp_path, reference, hypothesis, *options):
    return line(
        "score",
        *("--reference", _write(tmp_path / "ref.jsonl", reference)),
        *("--hypothesis", _write(tmp_path / "hyp.jsonl", hypothesis)),
        *options,
    )


def test_score_gives_every_metric(line, tmp_path):
    code, out, err = _score(line, tmp_path, [RIGHT] * 4, [RIGHT] * 3 + [WRONG], "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["ser"] == 1 / 8
    assert found["slot_f1"] == found["slot_f1_strict"] == 0.75
    assert found["irer"] == 0.25
    assert (found["num_utterances"], found["num_slots_substituted"]) == (4, 1)
    assert found["ser_low"] <= found["ser"] <= found["ser_high"]
    assert (found["align"], found["match"]) == ("name", "span")
    assert {"icer", "f_ser", "intent_accuracy", "frame_accuracy"} <= set(found)


@pytest.mark.parametrize("lacking", ["intent", "slots"])
def test_labels_that_the_reference_lacks_are_no_errors(line, tmp_path, lacking):
    reference = {name: value for name, value in RIGHT.items() if name != lacking}
    code, out, _ = _score(line, tmp_path, [reference] * 2, [RIGHT, RIGHT], "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["ser"], found["f_ser"], found["frame_accuracy"]) == (0, 0, 1)
    assert ("icer" in found, "slot_f1" in found) == (lacking != "intent", lacking != "slots")


def test_a_slot_where_the_reference_says_there_is_none_is_an_error(line, tmp_path):
    nothing = RIGHT | {"slots": []}
    _, out, _ = _score(line, tmp_path, [nothing] * 2, [RIGHT, nothing], "--json")
    assert json.loads(out)["ser"] == 0.5


def test_score_by_value_lets_tokens_differ(line, tmp_path):
    other = {"text": f"fly  to the {SECRET.upper()}", "intent": "flight", "slots": [["to", 3, 4]]}
    code, _, err = _score(line, tmp_path, [RIGHT], [other])
    assert code == 2
    assert "3 tokens on line 1 of the hypothesis, got 4" in err
    code, out, _ = _score(line, tmp_path, [RIGHT], [other], "--match", "value", "--json")
    assert code == 0
    assert json.loads(out)["ser"] == 0


def test_score_prints_a_table_for_people(line, tmp_path):
    code, out, _ = _score(line, tmp_path, [RIGHT], [WRONG])
    assert code == 0
    assert "frame_accuracy" in out
    assert SECRET not in out


DAMAGED = {
    "not json": b'{"text": "zanzibar"',
    "a list": b'["zanzibar"]',
    "not UTF-8": b'{"text": "zanzibar \xff", "intent": "a", "slots": []}',
    "an empty line": b"",
    "no text": b'{"intent": "zanzibar", "slots": []}',
    "an empty text": b'{"text": " ", "intent": "zanzibar", "slots": []}',
    "no intent": b'{"text": "zanzibar", "slots": []}',
    "no slots": b'{"text": "zanzibar", "intent": "a"}',
    "a slot of two": b'{"text": "zanzibar", "intent": "a", "slots": [["zanzibar", 0]]}',
    "a slot at true": b'{"text": "zanzibar", "intent": "a", "slots": [["zanzibar", false, true]]}',
    "a slot at 0.5": b'{"text": "zanzibar", "intent": "a", "slots": [["zanzibar", 0, 0.5]]}',
    "a slot outside": b'{"text": "zanzibar", "intent": "a", "slots": [["zanzibar", 0, 2]]}',
    "an empty slot": b'{"text": "zanzibar", "intent": "a", "slots": [["zanzibar", 1, 1]]}',
    "NaN": b'{"text": "zanzibar", "intent": "a", "slots": [["zanzibar", 0, NaN]]}',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("side", ["reference", "hypothesis"])
def test_a_damaged_line_is_named_and_not_quoted(line, tmp_path, damage, side):
    good = json.dumps(RIGHT).encode()
    files = {"reference": tmp_path / "ref.jsonl", "hypothesis": tmp_path / "hyp.jsonl"}
    for name, path in files.items():
        second = DAMAGED[damage] if name == side else good
        path.write_bytes(good + b"\n" + second + b"\n" + good + b"\n")
    given = (part for name, path in files.items() for part in (f"--{name}", path))
    err = line.refused("score", *given)
    assert f"{files[side]}, line 2: expected" in err
    assert SECRET not in err


def test_files_that_do_not_belong_together(line, tmp_path):
    code, _, err = _score(line, tmp_path, [RIGHT] * 3, [RIGHT] * 2)
    assert code == 2
    assert "as many lines in the hypothesis as in the reference (3), got 2" in err
    code, _, err = _score(line, tmp_path, [], [RIGHT])
    assert code == 2
    assert "at least one line" in err


@pytest.mark.parametrize("place", ["missing.jsonl", "."])
def test_a_file_that_cannot_be_read(line, tmp_path, place):
    good = _write(tmp_path / "ref.jsonl", [RIGHT])
    err = line.refused("score", "--reference", good, "--hypothesis", tmp_path / place)
    assert err.startswith("error: cannot read")


def test_score_says_what_it_needs(line):
    assert "expected --reference FILE and --hypothesis FILE" in line.refused("score")


def _scores(tmp_path, scores, member):
    lines = [{"score": float(s), "member": bool(m)} for s, m in zip(scores, member, strict=True)]
    return _write(tmp_path / "scores.jsonl", lines)


VECTOR = ([0.9, 0.8, 0.3, 0.7, 0.2, 0.1, 0.05], [1, 1, 1, 0, 0, 0, 0])


def test_attack_gives_every_figure_of_given_scores(line, tmp_path):
    found = line.facts("attack", "--scores", _scores(tmp_path, *VECTOR), "--roc")
    assert found["auc"] == pytest.approx(0.916667, abs=1e-6)
    assert found["balanced_accuracy"] == pytest.approx(0.875)
    assert found["advantage"] == pytest.approx(0.75)
    assert found["tpr_1pct"] == pytest.approx(2 / 3)
    assert found["tpr_01pct_low_resolution"] is True
    assert (found["num_members"], found["num_nonmembers"]) == (3, 4)
    assert found["auc_low"] <= found["auc"] <= found["auc_high"]
    assert len(found["roc"]["fpr"]) == len(found["roc"]["tpr"])


def test_attack_compares_scores_with_a_claim(line, tmp_path):
    rng = np.random.default_rng(0)
    member = np.arange(4_000) < 2_000
    path = _scores(tmp_path, rng.normal(size=4_000) + 2 * member, member)
    given = ("attack", "--scores", path, "--delta", 1e-5, "--epsilon")
    found = line.facts(*given, 0.5)
    assert "advantage" in found["inconsistent_with_claim"]
    assert found["epsilon_estimate_gdp"] == pytest.approx(10, abs=1.5)
    assert 0.5 < found["epsilon_estimate_cp"] < found["epsilon_estimate_gdp"]
    assert line.facts(*given, 20)["inconsistent_with_claim"] == []


def test_attack_certifies_one_run(line):
    found = line.facts("attack", "--one-run", 1_000, 100, 95, "--delta", 1e-5)
    assert found["epsilon_lower_bound"] == pytest.approx(2.1652, abs=1e-4)
    assert found["epsilon_estimate_fdp"] == pytest.approx(3.3233, abs=1e-4)
    line.says("attack", "--one-run", 1_000, 100, 95, "--delta", 1e-5)


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"score": "high", "member": true}',
        b'{"score": true, "member": true}',
        b'{"score": NaN, "member": true}',
        b'{"score": null, "member": true}',
        b'{"member": true}',
        b'{"score": 1}',
        b'{"score": 1, "member": "yes"}',
        b'{"score": 1, "member": 2}',
        b'{"score": 1' + b"0" * 400 + b', "member": true}',
    ],
)
def test_damaged_scores_are_named_by_line(line, tmp_path, damaged):
    path = tmp_path / "scores.jsonl"
    path.write_bytes(b'{"score": 1, "member": true}\n' + damaged + b"\n")
    assert f"{path}, line 2: expected" in line.refused("attack", "--scores", path)


def test_scores_of_one_class_cannot_be_evaluated(line, tmp_path):
    assert "members and non-members" in line.refused(
        "attack", "--scores", _scores(tmp_path, [1, 2], [1, 1])
    )
