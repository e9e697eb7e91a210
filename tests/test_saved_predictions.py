"""The evidence of a trial: what damage does to a file of arrays is one line, whatever
it breaks.
"""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.refusals import refused
from trainables import saved_predictions
from trainables.errors import InvalidData
from trainables.metrics._counts import NAMES, from_table
from trainables.metrics._score import compare
from trainables.saved import load


def test_any_byte_that_changes_is_refused_or_changes_nothing(tmp_path):
    """Numpy raises another error for each part of an archive: headers, sizes,
    compressed data.
    """
    table = np.arange(6 * len(NAMES), dtype=np.int64).reshape(6, len(NAMES))
    saved_predictions.write_counts(tmp_path, np.arange(6), from_table(table))
    file = tmp_path / saved_predictions.COUNTS
    whole = file.read_bytes()
    refused = 0
    for place in range(len(whole)):
        file.write_bytes(
            whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]
        )
        try:
            ids, _ = saved_predictions.read_counts(tmp_path)
            assert ids.tolist() == list(range(6))
        except InvalidData:
            refused += 1
    assert refused > len(whole) / 2


def test_means_over_trials_are_compared_over_the_test_records(tmp_path):
    """One trial against two: one has its counts, the other twice as many errors."""
    errors = [
        NAMES.index(n) for n in ("intent_errors", "substituted", "deleted", "inserted")
    ]
    rng = np.random.default_rng(0)
    wrong = rng.integers(0, 2, size=(40, len(NAMES)))
    doubled = wrong.copy()
    doubled[:, errors] *= 2
    places = [tmp_path / name for name in ("one", "same", "twice", "others")]
    tables = (wrong, wrong, doubled, wrong)
    for place, counts, first in zip(places, tables, (0, 0, 0, 1), strict=True):
        place.mkdir()
        saved_predictions.write_counts(
            place, np.arange(first, first + 40), from_table(counts)
        )
    one, same, twice, others = places
    of_two = compare(from_table(doubled), from_table(wrong))
    assert saved_predictions.mean_ser_change([twice], [one]) == of_two
    assert saved_predictions.mean_ser_change([twice, twice], [one, same]) == of_two
    found = saved_predictions.mean_ser_change([same, twice], [one])
    assert found["delta_ser_percent"] == pytest.approx(50.0)
    assert saved_predictions.mean_ser_change([one], [same, others]) is None


def test_a_field_of_another_type_is_damage(tmp_path):
    about = {
        "model": {"name": "clc"},
        "intents": ["a"],
        "slots": [],
        "schema_source": "made",
    }
    save_file({}, str(tmp_path / "weights.safetensors"))
    (tmp_path / "model.json").write_text(json.dumps(about | {"tokenize": ["space"]}))
    with refused(r"expected tokenize in \S+model\.json to be", InvalidData):
        load(tmp_path)


def test_a_folder_nested_too_deep_to_be_read_is_damaged(tmp_path):
    for name in ("model.json", "weights.safetensors"):
        (tmp_path / name).write_text("[" * 100_000)
    with refused("readable model", InvalidData):
        load(tmp_path)
