import json
import math

import pytest

from sweep.synthesis.trained_text import open_trained
from tests.refusals import refused

_MODEL = {"name": "causal_lm"}
_WHOLE = {
    "mechanism": {},
    "model": _MODEL,
    "synthesis": {"method": "one_stage"},
    "stages": ["utterances"],
    "frequencies": {"a": 1.0},
    "corpus": "pairs",
    "provenance": [],
}


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({}, "expected model, got none"),
        (_WHOLE, "synthesis.json has no expected_batch_size"),
        (_WHOLE | {"model": {**_MODEL, "hiden_size": 8}}, "unknown field hiden_size"),
        (_WHOLE | {"model": {**_MODEL, "hidden_size": 0}}, "hidden_size: .*got 0"),
        (_WHOLE | {"synthesis": {"method": "three_stage"}}, "one_stage.*three_stage"),
        ([], "expected a mapping, got \\[\\]"),
        (_WHOLE | {"stages": None}, "stages: expected a list, got None"),
        (_WHOLE | {"frequencies": [1]}, "frequencies: expected a mapping, got"),
        (
            _WHOLE | {"frequencies": {"a": None}},
            "frequencies.a: expected a number, got None",
        ),
        (_WHOLE | {"frequencies": {"a": math.inf}}, "frequencies.a: .*finite"),
        (_WHOLE | {"corpus": [1]}, "corpus: expected text, got"),
        (_WHOLE | {"provenance": [1]}, "provenance.0: expected text, got 1"),
    ],
)
def test_what_is_wrong_is_in_the_line(tmp_path, about, why):
    (tmp_path / "synthesis.json").write_text(json.dumps(about))
    with refused(f"of this version in .*, got another: .*{why}"):
        open_trained(tmp_path)
