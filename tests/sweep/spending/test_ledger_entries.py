"""The documents of the ledger: every field that an entry can have comes back."""

import json
import math
from dataclasses import fields, replace

import pytest

from sweep.spending.ledger import ENTRY, Entry
from trainables.guarantee.releases import (
    Allocated,
    BestOf,
    Gaussian,
    Number,
    Sampled,
    Training,
    Unaccounted,
)
from trainables.privacy.summary import plain

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
ENTRY_OF_PART = Entry(
    dataset="d",
    dataset_name="atis",
    sweep="s@1",
    trial="t",
    attempt=2,
    first_epoch=1,
    epochs=3,
    delta=1e-5,
    at=12.5,
    release=PART,
)


def written(entry):
    return json.loads(json.dumps(plain(ENTRY.dump_python(entry)), allow_nan=False))


@pytest.mark.parametrize("release", [PART, BEST])
def test_an_entry_comes_back_with_every_field_and_infinity(release):
    entry = replace(ENTRY_OF_PART, release=release, baseline=release is BEST)
    assert ENTRY.validate_python(written(entry)) == entry
    assert list(written(entry)) == [field.name for field in fields(Entry)]


def test_equal_noise_of_a_written_release_is_one_phase():
    row, steps = written(ENTRY_OF_PART), [(0.5, 1), (2.0, 1), (0.5, 2)]
    row["release"]["steps"] = [
        {"kind": "gaussian", "sigma": sigma, "count": count} for sigma, count in steps
    ]
    found = ENTRY.validate_python(row).release.steps
    assert [(step.sigma, step.count) for step in found] == [(2.0, 1), (0.5, 3)]
