"""One model of utterances, sampled from nothing (Mireshghallah et al. 2022,
"1-stage").
"""

from typing import Literal

from trainables.config.sections import SynthesisConfig, TextConfig
from trainables.fields import fixed_fields
from trainables.generation._material import (
    UTTERANCES,
    GeneratedTexts,
    Plan,
    StageTexts,
    TextSampler,
    TrainingTexts,
)

STAGES = (UTTERANCES,)
READS_PROGRAMS = False  # of the private records, by a parser or as given
READS_PROMPTS = False


@fixed_fields(SynthesisConfig, histogram="public")
class Config(TextConfig):
    """The fields of `synthesis` with `method: one_stage`."""

    method: Literal["one_stage"] = "one_stage"


def texts(stage: str, material: TrainingTexts) -> StageTexts:
    """Training texts of the model of `stage`."""
    return StageTexts(material.utterances)


def draw(drawer: TextSampler, plan: Plan) -> GeneratedTexts:
    """Draw from nothing."""
    found = drawer(UTTERANCES, [None] * plan.number)
    return GeneratedTexts(found, [""] * len(found))
