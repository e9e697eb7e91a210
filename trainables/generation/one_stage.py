"""One model of utterances, sampled from nothing (Mireshghallah et al. 2022, "1-stage")."""

from typing import Literal

from trainables.config.fields import constants_of
from trainables.config.sections import SynthesisConfig, TextConfig
from trainables.generation._material import UTTERANCES, Drawer, Drawn, Material, Plan, StageTexts

STAGES = (UTTERANCES,)
READS_PROGRAMS = False  # of the private records, by a parser or as given
READS_PROMPTS = False


@constants_of(SynthesisConfig, histogram="public")
class Config(TextConfig):
    """The fields of `synthesis` with `method: one_stage`."""

    method: Literal["one_stage"] = "one_stage"


def texts(stage: str, material: Material) -> StageTexts:
    """Training texts of the model of `stage`."""
    return StageTexts(material.utterances)


def draw(drawer: Drawer, plan: Plan) -> Drawn:
    """Draw from nothing."""
    found = drawer(UTTERANCES, [None] * plan.number)
    return Drawn(found, [""] * len(found))
