import numpy as np
import pytest

from tests.lines import write_lines

SECRET = "zanzibar"
RIGHT = {"text": f"fly to {SECRET}", "intent": "flight", "slots": [["to", 2, 3]]}
WRONG = {"text": f"fly to {SECRET}", "intent": "flight", "slots": [["to", 1, 3]]}


@pytest.fixture
def score(line, tmp_path):
    """The words of a command line on a reference and a hypothesis."""

    def words(reference, hypothesis):
        return (
            "score",
            *("--reference", write_lines(tmp_path / "ref.jsonl", reference)),
            *("--hypothesis", write_lines(tmp_path / "hyp.jsonl", hypothesis)),
        )

    return words


def test_score_gives_every_metric(line, score):
    found = line.facts(*score([RIGHT] * 4, [RIGHT] * 3 + [WRONG]))
    right = {"ser": 1 / 8, "slot_f1": 0.75, "slot_f1_strict": 0.75, "irer": 0.25}
    right |= {
        "num_utterances": 4,
        "num_slots_substituted": 1,
        "align": "name",
        "match": "span",
    }
    assert found | right == found
    assert found["ser_low"] <= found["ser"] <= found["ser_high"]
    assert {"icer", "f_ser", "intent_accuracy", "frame_accuracy"} <= set(found)


@pytest.mark.parametrize("lacking", ["intent", "slots"])
def test_labels_that_the_reference_lacks_are_no_errors(line, score, lacking):
    reference = {name: value for name, value in RIGHT.items() if name != lacking}
    for guess in (RIGHT, reference):
        found = line.facts(*score([reference] * 2, [guess] * 2))
        assert (found["ser"], found["f_ser"], found["frame_accuracy"]) == (0, 0, 1)
        assert ("icer" in found, "slot_f1" in found) == (
            lacking != "intent",
            lacking != "slots",
        )


def test_a_slot_where_the_reference_says_there_is_none_is_an_error(line, score):
    nothing = RIGHT | {"slots": []}
    assert line.facts(*score([nothing] * 2, [RIGHT, nothing]))["ser"] == 0.5


def test_score_by_value_lets_tokens_differ(line, score):
    other = {
        "text": f"fly  to the {SECRET.upper()}",
        "intent": "flight",
        "slots": [["to", 3, 4]],
    }
    words = score([RIGHT], [other])
    assert "3 tokens in utterance 1 of the hypothesis, got 4" in line.refused(*words)
    assert line.facts(*words, "--match", "value")["ser"] == 0


def _scores(tmp_path, scores, member):
    """Members are true or false, or 1 or 0."""
    rows = enumerate(zip(scores, member, strict=True))
    lines = [{"score": s, "member": bool(m) if n % 2 else int(m)} for n, (s, m) in rows]
    return write_lines(tmp_path / "scores.jsonl", lines)


VECTOR = ([2, 0.8, 0.3, 0.7, 0.2, 0.1, -2e9], [1, 1, 1, 0, 0, 0, 0])


def test_attack_gives_every_figure_of_given_scores(line, tmp_path):
    found = line.facts("attack", "--scores", _scores(tmp_path, *VECTOR))
    right = {
        "auc": 11 / 12,
        "balanced_accuracy": 0.875,
        "advantage": 0.75,
        "tpr_1pct": 2 / 3,
    }
    assert {name: found[name] for name in right} == pytest.approx(right)
    right = {"tpr_01pct_low_resolution": True, "num_members": 3, "num_nonmembers": 4}
    assert found | right == found
    assert found["auc_low"] <= found["auc"] <= found["auc_high"]


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
