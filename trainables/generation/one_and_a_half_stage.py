"""A model of utterances behind a short prompt (Mireshghallah et al. 2022, "1.5-stage").

The prompt is the domain, or the set of function types, and is drawn from a histogram. The paper
takes the private records' own frequencies, unaccounted; here they are released with Gaussian noise
by default (`histogram`). Function types as prompts are the cheap form of a first stage that CTCL
(2025) has with topics.
"""

from typing import Literal

from trainables.config.fields import constants_of
from trainables.config.sections import ProgramsConfig, PromptedConfig, SynthesisConfig, TextConfig
from trainables.generation._material import UTTERANCES, Drawer, Drawn, Material, Plan, StageTexts

STAGES = (UTTERANCES,)
READS_PROGRAMS = False  # prompts may be derived from them
READS_PROMPTS = True


@constants_of(SynthesisConfig)
class Config(PromptedConfig, ProgramsConfig, TextConfig):
    """The fields of `synthesis` with `method: one_and_a_half_stage`."""

    method: Literal["one_and_a_half_stage"] = "one_and_a_half_stage"


def texts(stage: str, material: Material) -> StageTexts:
    """Training texts of the model of `stage`."""
    return StageTexts(material.utterances, material.prompts)


def draw(drawer: Drawer, plan: Plan) -> Drawn:
    """Draw prompts by their frequencies, and an utterance after each."""
    prompts = plan.draw_prompts()
    return Drawn(drawer(UTTERANCES, prompts), prompts)
