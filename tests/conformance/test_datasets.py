import inspect
from pathlib import Path

import pytest

from search_spaces import space as spaces
from sweep.planning import plan as planning
from sweep.planning.accounting import Accounting
from tests.refusals import refused
from tests.sweep.sweeps import settings_in
from trainables import catalogue
from trainables.config.trial import data_config, parse
from trainables.data.corpus import open_corpus
from trainables.data.pairs import Pair
from trainables.data.records import Utterance
from trainables.errors import InvalidData
from trainables.tasks import ENTRIES

NAMES = catalogue.names("datasets")
RECORDS = {"frames": Utterance, "pairs": Pair}


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def entry(name):
    return catalogue.entry("datasets", name)


def test_the_shelf_has_the_papers_corpora():
    assert {"atis", "snips", "nlu_eval"} <= set(
        catalogue.names("datasets", kind="frames")
    )
    assert {"smcalflow", "treedst"} <= set(catalogue.names("datasets", kind="pairs"))


def test_the_contract(name, entry):
    kind = catalogue.kind_of("datasets", name)
    assert kind in {task.datasets for task in ENTRIES.values()}
    assert isinstance(entry.PUBLIC, bool)
    assert RECORDS[kind].__name__ in str(
        inspect.signature(entry.read).return_annotation
    )
    place = Path(entry.default_path())
    assert not place.is_absolute()
    assert ".." not in place.parts
    size = entry.pool_size(data_config(name=name))
    assert size is None or size > 0
    assert (entry.__doc__ or "").split("\n\n")[0].strip().endswith((".", ":"))


def test_missing_data_is_refused_by_its_place(name, entry, tmp_path):
    config = data_config(name=name)
    nowhere = tmp_path / "nothing here"
    if hasattr(entry, "recipe"):
        assert entry.files(nowhere, config=config) == ()
        assert next(iter(entry.read(nowhere, config=config)))
        return
    for attempt in (entry.files, lambda *a, **k: list(entry.read(*a, **k))):
        with refused("nothing here", InvalidData):
            attempt(nowhere, config=config)


COLOURS = '''"""Made corpus: lamps and colours."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from trainables.data.records import LabelSchema, Utterance
from trainables.config.sections import DataConfig

PUBLIC = True
_COLOURS = ("red", "green", "blue", "white")


class Config(DataConfig):
    name: Literal["lamps"] = "lamps"
    lamps: int = Field(30, ge=5)


def default_path():
    return "lamps"


def files(path, *, config):
    return ()


def read(path, *, config):
    for number in range(config.lamps):
        for colour in _COLOURS:
            tokens = ("turn", f"lamp{number}", colour)
            yield Utterance(tokens, ("O", "B-lamp", "B-colour"), "light")


def recipe(config):
    return {"lamps": config.lamps}


def schema(path, *, config):
    return LabelSchema(("light",), ("lamp", "colour"), source="made", public=True)


def pool_size(config):
    return 4 * config.lamps
'''


def test_a_new_corpus_is_found_used_in_a_space_and_priced(drop_in, tmp_path):
    drop_in("datasets", "lamps", COLOURS, "frames")
    space = spaces.parse(
        {
            "name": "s",
            "base": {"data": {"name": "atis", "schema_file": "x"}, "engine": "dp_sgd"},
            "variants": [
                {
                    "name": "mine",
                    "set": {"data.name": "lamps", "training.expected_batch_size": 8},
                    "axes": {"data.lamps": [30, 60]},
                }
            ],
        }
    )
    plan = planning.make(space, account=Accounting(settings_in(tmp_path)))
    assert [trial.num_records for trial in plan.to_run] == [
        54,
        108,
    ]  # 45 in 100 of 120 and 240
    assert plan.to_run[0].epsilon > plan.to_run[1].epsilon
    with refused(r"^unknown field data\.lamps for data atis"):
        parse({"data": {"lamps": 3}})
    corpus = open_corpus(
        plan.to_run[0].config.data, data_dir=tmp_path, cache_dir=tmp_path / "c"
    )
    assert corpus.num_records == 120
