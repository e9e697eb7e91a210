import pytest

from search_spaces import space as spaces
from search_spaces.expansion import expand
from tests.refusals import refused
from trainables import catalogue
from trainables.config.mechanism import build
from trainables.config.trial import entry_fields, parse
from trainables.fields import written_fields
from trainables.generation.material import PARSES, UTTERANCES, Plan, TrainingTexts
from trainables.generation.methods import GenerationMethod

_NAMES = catalogue.names("generation")
_MATERIAL = TrainingTexts(
    ("call ann", "wake me"), ("(call ann)", "(alarm)"), ("phone", "clock")
)
_TEXT = {
    "task": "synthesis",
    "engine": "dp_sgd",
    "data": {"name": "smcalflow"},
    "model": {"name": "causal_lm"},
}


def config(method, **fields):
    has_two = "parse_epochs" in (entry_fields("synthesis", method) or ())
    epochs = {"parse_epochs": 2} if has_two else {}
    return parse({**_TEXT, "synthesis": {"method": method, **epochs, **fields}})


def echo(stage, prompts):
    """A drawer that answers with the prompt, or the number of the text."""
    return [prompt or f"{stage} {i}" for i, prompt in enumerate(prompts)]


@pytest.mark.parametrize("name", _NAMES)
def test_the_contract(name):
    method = catalogue.entry("generation", name)
    assert issubclass(method, GenerationMethod)
    assert set(method.stages) <= {PARSES, UTTERANCES}
    assert method.stages[-1] == UTTERANCES


@pytest.mark.parametrize("name", _NAMES)
def test_each_stage_learns_one_text_a_record(name):
    module = catalogue.entry("generation", name)
    for stage in module.stages:
        found = module.texts(stage, _MATERIAL)
        assert len(found.texts) == 2
        assert found.prompts is None or len(found.prompts) == 2
    assert module.texts(UTTERANCES, _MATERIAL).texts == _MATERIAL.utterances


@pytest.mark.parametrize("name", _NAMES)
def test_the_requested_number_of_utterances_is_drawn(name):
    plan = Plan(number=7, seed=0, frequencies={"phone": 1.0, "clock": 3.0})
    found = catalogue.entry("generation", name).draw(echo, plan)
    assert len(found.utterances) == len(found.prompts) == 7
    assert found == catalogue.entry("generation", name).draw(echo, plan)


@pytest.mark.parametrize("name", _NAMES)
def test_its_config_is_read_back_and_priced(name):
    made = config(name)
    assert parse(made.model_dump(mode="json")) == made
    assert made.synthesis.method == name
    assert build(made, num_records=640).unaccounted == ()
    written = made.model_dump()["synthesis"].keys()
    assert written <= {*written_fields(type(made.synthesis))}


REVERSED = '''
from typing import Literal

from pydantic import Field

from trainables.config.sections import SynthesisConfig
from trainables.fields import fixed_fields
from trainables.generation.material import UTTERANCES, GeneratedTexts
from trainables.generation.methods import GenerationMethod


@fixed_fields(SynthesisConfig, histogram="public")
class Surplus(GenerationMethod):
    """One model of utterances, drawn twice as many as are kept."""

    method: Literal["surplus"] = "surplus"
    surplus: int = Field(2, ge=1)

    @classmethod
    def draw(cls, sampler, plan):
        found = sampler(UTTERANCES, [None] * 2 * plan.number)
        return GeneratedTexts(found[: plan.number], [""] * plan.number)
'''


def test_a_new_method_is_found_used_in_a_space_and_priced(drop_in):
    drop_in("generation", "surplus", REVERSED, "Surplus")
    assert config("surplus").id != config("surplus", surplus=3).id
    space = spaces.parse(
        {
            "name": "s",
            "base": {**_TEXT, "synthesis": {"parse_epochs": 2, "method": "two_stage"}},
            "variants": [
                {"name": "two"},
                {
                    "name": "mine",
                    "set": {"synthesis.method": "surplus", "synthesis.surplus": 4},
                },
            ],
        }
    )
    two, mine = (point.config for point in expand(space).points)
    assert (two.synthesis.parse_epochs, mine.synthesis.parse_epochs) == (2, None)
    assert build(mine, num_records=640).stages == ()
    with refused(r"surpluss for method surplus: did you mean surplus\?"):
        config("surplus", surpluss=3)
