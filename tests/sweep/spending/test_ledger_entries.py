"""The documents of the ledger: every field that an entry can have, in the bytes of all versions."""

from __future__ import annotations

import json
import math

import pytest
from pydantic import ValidationError

from sweep.spending.entries import ENTRY, Entry
from sweep.store.files import jsonable
from trainables.accountants import Release
from trainables.accountants._release import BestOf

PART = Release(
    phases=((2.0, 3), (0.5, 1)),
    sampling="poisson",
    sample_rate=0.25,
    neighboring_relation="add_or_remove_one",
    unsampled=((math.inf, 1),),
)
BEST = Release(
    phases=((0.0, 1),),
    sampling="poisson",
    sample_rate=0.25,
    neighboring_relation="add_or_remove_one",
    unit="group",
    unaccounted=("no noise",),
    best_of=BestOf(mean=7.5, shape=math.inf, configurations=(PART,)),
)
PART_TEXT = (
    '{"unsampled": [["inf", 1]], "phases": [[2.0, 3], [0.5, 1]], "sampling": "poisson",'
    ' "sample_rate": 0.25, "neighboring_relation": "add_or_remove_one", "unit": "record",'
    ' "unaccounted": []}'
)
BEST_TEXT = (
    '{"best_of": {"mean": 7.5, "shape": "inf", "configurations": [' + PART_TEXT + "]},"
    ' "phases": [[0.0, 1]], "sampling": "poisson", "sample_rate": 0.25,'
    ' "neighboring_relation": "add_or_remove_one", "unit": "group", "unaccounted": ["no noise"]}'
)


def entry(release: Release, *, baseline: bool = False, dataset_name: str = "") -> Entry:
    return Entry(
        dataset="d",
        dataset_name=dataset_name,
        sweep="s@1",
        trial="t",
        attempt=2,
        first_epoch=1,
        epochs=3,
        delta=1e-5,
        at=12.5,
        baseline=baseline,
        release=release,
    )


def text(release: str, *, baseline: str = "false", dataset_name: str = "") -> str:
    return (
        f'{{"dataset": "d", "dataset_name": "{dataset_name}", "sweep": "s@1", "trial": "t",'
        ' "attempt": 2, "first_epoch": 1, "epochs": 3, "delta": 1e-05, "at": 12.5,'
        f' "baseline": {baseline}, "release": {release}}}'
    )


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (entry(PART), text(PART_TEXT)),
        (
            entry(BEST, baseline=True, dataset_name="atis"),
            text(BEST_TEXT, baseline="true", dataset_name="atis"),
        ),
    ],
)
def test_an_entry_is_written_and_read_in_the_bytes_of_all_versions(entry, text):
    assert json.dumps(jsonable(ENTRY.dump_python(entry))) == text
    assert ENTRY.validate_json(text) == entry


def test_what_an_earlier_version_did_not_write_has_its_default():
    fields = json.loads(text(PART_TEXT))
    del fields["baseline"], fields["release"]["unsampled"]
    found = ENTRY.validate_python(fields)
    assert not found.baseline
    assert found.release.unsampled == ()


def test_equal_noise_of_a_written_release_is_one_phase():
    fields = json.loads(text(PART_TEXT))
    fields["release"]["phases"] = [[0.5, 1], [2.0, 1], [0.5, 2]]
    assert ENTRY.validate_python(fields).release.phases == ((2.0, 1), (0.5, 3))


@pytest.mark.parametrize("name", ["dataset", "trial", "epochs", "delta", "release"])
def test_an_entry_without_a_field_is_damaged(name):
    fields = json.loads(text(PART_TEXT))
    del fields[name]
    with pytest.raises(ValidationError, match=name):
        ENTRY.validate_python(fields)
