import pytest

from search_spaces import space as spaces
from search_spaces.expansion import expand
from tests.refusals import refused
from tests.tasks.test_nlu_trial import config, place, run
from trainables import catalogue
from trainables.config.trial import ModelConfig, model_part, parse
from trainables.fields import written_fields
from trainables.models.nlu.base import NluModel
from trainables.models.text.causal_lm import LmModule

__all__ = ["place"]

_NAMES = catalogue.names("models")
_BASES = {"frames": NluModel, "text": LmModule}


@pytest.mark.parametrize("name", _NAMES)
def test_the_contract(name):
    entry = catalogue.entry("models", name)
    assert issubclass(entry, ModelConfig)
    assert entry().name == name
    assert model_part(name=name) == entry()
    assert issubclass(catalogue.load(entry.component), _BASES[entry.kind])
    assert entry.shadow_training["learning_rate"] > 0


@pytest.mark.parametrize("name", _NAMES)
def test_what_it_does_not_read_is_its_default_and_not_written(name):
    made = catalogue.entry("models", name)()
    written = made.model_dump(mode="json")
    assert set(written) == set(written_fields(type(made))) - made.unread({}).keys()
    assert type(made).model_validate(written) == made


NARROW = '''
from typing import Any, Literal

from pydantic import Field

from trainables.config.sections import ModelConfig
from trainables.models.configs import ClcConfig


class NarrowConfig(ModelConfig):
    """A CLC of one number."""

    kind = "frames"
    component = "trainables.models.narrow:NarrowConfig"

    name: Literal["narrow"] = "narrow"
    width: int = Field(8, ge=2)

    def build(self, **inputs: Any) -> Any:
        sizes = {"word_buckets": 64, "char_dim": 4, "char_filters": 6, "num_layers": 1}
        whole = ClcConfig(hidden_size=self.width, word_dim=self.width, **sizes)
        return whole.build(**inputs)
'''


def test_a_new_model_is_found_used_in_a_space_and_trained(drop_in, place, tmp_path):
    drop_in("models", "narrow", NARROW, "NarrowConfig")
    usual = config("dp_sgd", training={"epochs": 1}).model_dump(mode="json")
    space = spaces.parse(
        {
            "name": "s",
            "base": usual,
            "variants": [
                {"name": "usual"},
                {
                    "name": "mine",
                    "set": {"model.name": "narrow"},
                    "axes": {"model.width": [4, 8]},
                },
            ],
        }
    )
    before, small, wide = (point.config for point in expand(space).points)
    assert before == parse(usual)
    assert small.id != wide.id
    assert wide.model.model_dump() == {"name": "narrow", "width": 8}
    result, reports = run(place, tmp_path, small)
    assert [epoch.epochs_done for epoch in reports] == [1]
    assert result.metrics["num_utterances"] == 60
    with refused(r"^unknown field model\.hidden_size for model narrow"):
        parse({"model": {"name": "narrow", "hidden_size": 4}})
