"""A model of programs and one of utterances given a program (Mireshghallah et al.
2022).

Programs of private records come from a parser trained on public ones. Both models are
trained on the same private records with the same noise. To generate, a program is
sampled (width 1), an utterance is drawn after it (width 5), and the program is
discarded. Malformed programs are kept, as in the paper.
"""

from typing import Literal

from trainables.config.sections import (
    ProgramsConfig,
    StagedConfig,
    SynthesisConfig,
    TextConfig,
)
from trainables.fields import fixed_fields
from trainables.generation._material import (
    PARSES,
    UTTERANCES,
    GeneratedTexts,
    Plan,
    StageTexts,
    TextSampler,
    TrainingTexts,
)

STAGES = (PARSES, UTTERANCES)
READS_PROGRAMS = True
READS_PROMPTS = False


@fixed_fields(SynthesisConfig, histogram="public")
class Config(StagedConfig, ProgramsConfig, TextConfig):
    """The fields of `synthesis` with `method: two_stage`."""

    method: Literal["two_stage"] = "two_stage"
    parse_epochs: int


def texts(stage: str, material: TrainingTexts) -> StageTexts:
    """Training texts of the model of `stage`."""
    if stage == PARSES:
        return StageTexts(material.programs)
    return StageTexts(material.utterances, material.programs)


def draw(drawer: TextSampler, plan: Plan) -> GeneratedTexts:
    """Draw programs, then an utterance after each."""
    programs = drawer(PARSES, [None] * plan.number)
    return GeneratedTexts(drawer(UTTERANCES, programs), programs)
