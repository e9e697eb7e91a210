"""Trials that follow each other in one process: none depends on those before it."""

import pytest

from tests.tasks._pairs import tiny, write_pairs
from tests.trials import run_alone
from trainables.config.trial import parse

_CLC = {
    "word_buckets": 64,
    "word_dim": 8,
    "char_dim": 4,
    "char_filters": 6,
    "hidden_size": 12,
}
_BERT = {
    "name": "bert",
    "num_layers": 1,
    "hidden_size": 24,
    "num_heads": 2,
    "word_buckets": 64,
}
_LOSS, _SHADOW = {"attacks": ["loss_threshold"]}, {"attacks": ["shadow"]}
# The first and the last have one architecture, so the one that runs first trains their
# shadow.
_TRIALS = (
    {
        "engine": "edp_sgd",
        "model": _CLC,
        "training": {"num_workers": 2},
        "evaluation": _SHADOW,
    },
    {
        "engine": "dp_sgd",
        "model": {"name": "features", "encoder": "dialogues"},
        "privacy": {"sampling": "full"},
        "evaluation": _LOSS,
    },
    {
        "engine": "dp_sgd",
        "model": _BERT | {"intermediate_size": 32},
        "training": {"optimizer": "adam", "precision": "bf16"},
        "evaluation": _LOSS,
    },
    {"engine": "sgd", "model": _CLC, "evaluation": _SHADOW},
)
_TEXT = {
    "model.dropout": 0.1,
    "privacy.reproducible_noise": True,
    "synthesis.measuring_parser_epochs": 1,
}
_TEXTS = (
    {"synthesis.method": "one_and_a_half_stage", "synthesis.lora_rank": 2},
    {"synthesis.method": "two_stage", "synthesis.parse_epochs": 1},
)


def _run(order, place):
    """Weights and figures of the trials, run in this order with a cache of their
    own.
    """
    found = {}
    place.mkdir()
    pairs = write_pairs(place)
    for number in order:
        folder = place / str(number)
        result = run_alone(_config(number, pairs), folder, data=place)
        metrics = {
            n: v for n, v in result.metrics.items() if not n.startswith("seconds_")
        }
        drawn = folder / "synthetic.jsonl"
        metrics["drawn"] = drawn.read_text() if drawn.is_file() else ""
        found[number] = (
            (folder / "model" / "weights.safetensors").read_bytes(),
            metrics,
        )
    return found


def _config(number, pairs):
    if number >= len(_TRIALS):
        return tiny(pairs, **_TEXT, **_TEXTS[number - len(_TRIALS)])
    fields = _TRIALS[number]
    return parse(
        {
            "data": {
                **{"name": "communication", "num_utterances": 1_000},
                **{"max_records": 120, "split": "bernoulli"},
            },
            **fields,
            "evaluation": {"bootstrap_samples": 0} | fields["evaluation"],
            "training": {"epochs": 2, "expected_batch_size": 32}
            | fields.get("training", {}),
            "privacy": {"reproducible_noise": fields["engine"] != "sgd"}
            | fields.get("privacy", {}),
        }
    )


@pytest.mark.slow  # twelve trials
def test_a_trial_is_the_same_whichever_ran_before_it(tmp_path):
    numbers = [4, 0, 1, 5, 2, 3]  # 4 and 5 are trials of text
    forwards = _run(numbers, tmp_path / "forwards")
    backwards = _run(list(reversed(numbers)), tmp_path / "backwards")
    for number in numbers:
        assert forwards[number][0] == backwards[number][0], f"weights of trial {number}"
        assert forwards[number][1] == backwards[number][1]
