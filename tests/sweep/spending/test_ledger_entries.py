"""The documents of the ledger: every field that an entry can have, in the bytes of all versions."""

from __future__ import annotations

import json
import math

import pytest
from pydantic import ValidationError

from sweep.spending.entries import ENTRY, Entry
from sweep.store.files import jsonable
from trainables.accountants import Release
from trainables.guarantee.releases import (
    Allocated,
    BestOf,
    Gaussian,
    Number,
    Sampled,
    Training,
    Unaccounted,
)

PART = Training(
    steps=(
        Sampled(sigma=2.0, rate=0.25, count=3),
        Allocated(sigma=0.5, steps=40),
        Gaussian(sigma=0.5),
    ),
    beside=(Gaussian(sigma=math.inf),),
    neighboring_relation="add_or_remove_one",
)
BEST = BestOf(
    number=Number(law="poisson", mean=7.5),
    configurations=(PART,),
    shown=(Unaccounted(reasons=("no noise",), neighboring_relation="replace_one", unit="group"),),
)
PART_TEXT = (
    '{"kind": "training", "steps": [{"kind": "allocated", "sigma": 0.5, "steps": 40, "count": 1},'
    ' {"kind": "gaussian", "sigma": 0.5, "count": 1},'
    ' {"kind": "sampled", "sigma": 2.0, "rate": 0.25, "count": 3}],'
    ' "beside": [{"kind": "gaussian", "sigma": "inf", "count": 1}],'
    ' "neighboring_relation": "add_or_remove_one", "unit": "record"}'
)
BEST_TEXT = (
    '{"kind": "best_of", "number": {"law": "poisson", "mean": 7.5}, "configurations": ['
    + PART_TEXT
    + '], "shown": [{"kind": "unaccounted", "reasons": ["no noise"],'
    ' "neighboring_relation": "replace_one", "unit": "group"}]}'
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
    del fields["baseline"], fields["release"]["beside"]
    found = ENTRY.validate_python(fields)
    assert not found.baseline
    assert found.release.beside == ()


def test_equal_noise_of_a_written_release_is_one_phase():
    fields = json.loads(text(PART_TEXT))
    steps = [(0.5, 1), (2.0, 1), (0.5, 2)]
    fields["release"]["steps"] = [
        {"kind": "gaussian", "sigma": sigma, "count": count} for sigma, count in steps
    ]
    found = ENTRY.validate_python(fields).release.steps
    assert [(step.sigma, step.count) for step in found] == [(2.0, 1), (0.5, 3)]


@pytest.mark.parametrize("name", ["dataset", "trial", "epochs", "delta", "release"])
def test_an_entry_without_a_field_is_damaged(name):
    fields = json.loads(text(PART_TEXT))
    del fields[name]
    with pytest.raises(ValidationError, match=name):
        ENTRY.validate_python(fields)
