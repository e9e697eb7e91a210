import inspect
from pathlib import Path

import pytest

from search_spaces import space as spaces
from sweep.planning import plan as planning
from sweep.planning.accounting import Accounting
from tests.refusals import refused
from tests.sweep.sweeps import settings_in
from trainables import catalogue
from trainables.config.trial import DataConfig, data_config, parse
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
    assert issubclass(entry, DataConfig)
    assert entry().name == name
    assert entry.kind in {task.datasets for task in ENTRIES.values()}
    returned = inspect.signature(entry.read).return_annotation
    assert RECORDS[entry.kind].__name__ in str(returned)
    place = Path(entry.place)
    assert not place.is_absolute()
    assert ".." not in place.parts
    size = entry().pool_size()
    assert size is None or size > 0
    assert (entry.__doc__ or "").split("\n\n")[0].strip().endswith((".", ":"))


def test_missing_data_is_refused_by_its_place(name, tmp_path):
    config = data_config(name=name)
    nowhere = tmp_path / "nothing here"
    if config.recipe() is not None:
        assert config.files(nowhere) == ()
        assert next(iter(config.read(nowhere)))
        return
    for attempt in (config.files, lambda path: list(config.read(path))):
        with refused("nothing here", InvalidData):
            attempt(nowhere)


COLOURS = '''
from typing import Literal

from pydantic import Field

from trainables.config.sections import DataConfig
from trainables.data.records import LabelSchema, Utterance

_COLOURS = ("red", "green", "blue", "white")


class Lamps(DataConfig):
    """Made corpus: lamps and colours."""

    kind = "frames"
    is_public = True
    place = "lamps"

    name: Literal["lamps"] = "lamps"
    lamps: int = Field(30, ge=5)

    def files(self, path):
        return ()

    def read(self, path):
        for number in range(self.lamps):
            for colour in _COLOURS:
                tokens = ("turn", f"lamp{number}", colour)
                yield Utterance(tokens, ("O", "B-lamp", "B-colour"), "light")

    def recipe(self):
        return f"{self.lamps} lamps"

    def labels(self, path):
        return LabelSchema(("light",), ("lamp", "colour"), source="made", public=True)

    def pool_size(self):
        return 4 * self.lamps
'''


def test_a_new_corpus_is_found_used_in_a_space_and_priced(drop_in, tmp_path):
    drop_in("datasets", "lamps", COLOURS, "Lamps")
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
