import json

import pytest

from sweep.results.predict import ExportedModel, Prediction, answers
from sweep.results.score_files import score_files
from tests.fixed_keys import fixed_keys
from tests.lines import write_lines
from tests.tasks.test_nlu_trial import config, place, run

__all__ = ["place"]  # a fixture


@pytest.fixture(scope="module")
def model(place, tmp_path_factory):
    """A model that was trained on a corpus whose texts were cut at punctuation."""
    schema = json.loads((place / "schema.json").read_text())
    (place / "cut.json").write_text(json.dumps({**schema, "tokenize": "punctuation"}))
    folder = tmp_path_factory.mktemp("trial")
    made = config(
        "sgd", data={"schema_file": "cut.json"}, privacy={"reproducible_noise": False}
    )
    with fixed_keys():
        run(place, folder, made)
    return ExportedModel(folder)


def test_the_corpus_itself_is_a_reference(place, tmp_path, model):
    reference = place / "utterances.jsonl"
    lines = list(enumerate(reference.read_text().splitlines(), start=1))
    said = [found for _, found in answers(model, [lines], are_objects=True)]
    hypothesis = tmp_path / "said.jsonl"
    write_lines(hypothesis, [found.to_dict() for found in said])
    figures, right = (
        score_files(
            reference, file, align="name", match="span", bootstrap_samples=0, seed=0
        )
        for file in (hypothesis, reference)
    )
    assert figures["num_utterances"] == len(lines)
    assert figures["ser"] < 0.5  # it has learnt some of them
    assert (right["ser"], right["slot_f1"], right["intent_accuracy"]) == (0, 1, 1)


def test_a_text_is_cut_as_the_training_texts_were(model):
    (found,) = model(["please call ann!"])
    assert found.tokens == ("please", "call", "ann", "!")
    assert found.to_dict()["text"] == "please call ann !"
    as_is = ExportedModel(model._source[0], tokenize="space")
    assert as_is(["please call ann!"])[0].tokens == ("please", "call", "ann!")


def test_a_line_without_words_has_its_problem(model):
    lines = ['{"tokens": ["a b"]}', '{"text": 5}', "[]", "{", '{"text": "call ann"}']
    said = [
        found
        for _, found in answers(model, [list(enumerate(lines, 1))], are_objects=True)
    ]
    assert said[:3] == ["expected a JSON object with tokens or text"] * 3
    assert said[3] == "expected JSON"
    assert isinstance(said[4], Prediction)
