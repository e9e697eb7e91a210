"""A model of utterances behind a short prompt (Mireshghallah et al. 2022, "1.5-stage").

The prompt is the domain, or the set of function types, and is drawn from a histogram.
The paper takes the private records' own frequencies, unaccounted; here they are
released with Gaussian noise by default (`histogram`). Function types as prompts are the
cheap form of a first stage that CTCL (2025) has with topics.
"""

from typing import Literal

from trainables.config.sections import (
    ProgramsConfig,
    PromptedConfig,
    SynthesisConfig,
    TextConfig,
)
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
READS_PROGRAMS = False  # prompts may be derived from them
READS_PROMPTS = True


@fixed_fields(SynthesisConfig)
class Config(PromptedConfig, ProgramsConfig, TextConfig):
    """The fields of `synthesis` with `method: one_and_a_half_stage`."""

    method: Literal["one_and_a_half_stage"] = "one_and_a_half_stage"


def texts(stage: str, material: TrainingTexts) -> StageTexts:
    """Training texts of the model of `stage`."""
    return StageTexts(material.utterances, material.prompts)


def draw(drawer: TextSampler, plan: Plan) -> GeneratedTexts:
    """Draw prompts by their frequencies, and an utterance after each."""
    prompts = plan.draw_prompts()
    return GeneratedTexts(drawer(UTTERANCES, prompts), prompts)
