"""What every corpus of the shelf must be; a new file inherits these tests."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from trainables import catalogue
from trainables.config import KINDS, data_config
from trainables.data.pairs import Pair
from trainables.data.records import Utterance
from trainables.errors import InvalidData

NAMES = catalogue.names("datasets")
RECORDS = {"frames": "Utterance", "pairs": "Pair"}


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def entry(name):
    return catalogue.entry("datasets", name)


def test_the_shelf_has_the_papers_corpora():
    assert {"atis", "snips", "nlu_eval"} <= set(catalogue.names("datasets", kind="frames"))
    assert {"smcalflow", "treedst"} <= set(catalogue.names("datasets", kind="pairs"))


def test_it_states_its_kind_and_whether_it_is_public(name, entry):
    assert entry.KIND in RECORDS
    assert catalogue.kind_of("datasets", name) == entry.KIND
    assert entry.KIND in KINDS.values()
    assert isinstance(entry.PUBLIC, bool)


def test_it_yields_the_records_of_its_kind(entry):
    yields = inspect.signature(entry.read).return_annotation
    assert RECORDS[entry.KIND] in str(yields)
    assert {Utterance.__name__, Pair.__name__} == set(RECORDS.values())


def test_its_place_is_inside_the_data_directory(entry):
    place = Path(entry.default_path())
    assert not place.is_absolute()
    assert ".." not in place.parts


def test_missing_data_is_refused_by_its_place(name, entry, tmp_path):
    config = data_config(name=name)
    nowhere = tmp_path / "nothing here"
    if hasattr(entry, "recipe"):
        assert entry.files(nowhere, config=config) == ()
        assert next(iter(entry.read(nowhere, config=config)))
        return
    for attempt in (entry.files, lambda *a, **k: list(entry.read(*a, **k))):
        with pytest.raises(InvalidData, match="nothing here"):
            attempt(nowhere, config=config)


def test_its_size_is_known_or_not(name, entry):
    size = entry.pool_size(data_config(name=name))
    assert size is None or size > 0


def test_its_name_is_described_in_one_line(entry):
    assert (entry.__doc__ or "").split("\n")[0].strip().endswith((".", ":"))
