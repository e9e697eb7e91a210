"""Programs of the data directory, for the tests that measure what the definitions
promise.
"""

import gzip
import json
import os
import zipfile
from functools import cache
from pathlib import Path

import pytest

DATA = Path(os.environ.get("SWEEP_DATA_DIR", "data"))


def _place(name):
    place = DATA / name
    if not place.exists():
        pytest.skip(f"{name} is not in SWEEP_DATA_DIR={DATA}")
    return place


@cache
def _official(place):
    with zipfile.ZipFile(place) as archive, archive.open(archive.namelist()[0]) as file:
        return tuple(
            turn["lispress"] for line in file for turn in json.loads(line)["turns"]
        )


@cache
def _pairs(place):
    with gzip.open(place, "rt") as file:
        return tuple(json.loads(line)["lispress"] for line in file)


def smcalflow_valid():
    return _official(_place("smcalflow2/valid.dataflow_dialogues.jsonl.zip"))


def treedst():
    return _pairs(_place("treedst/pairs_dev_hard.jsonl.gz"))
