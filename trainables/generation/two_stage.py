"""A model of programs and one of utterances given a program (Mireshghallah et al. 2022).

Programs of private records come from a parser trained on public ones. Both models are trained on
the same private records with the same noise. To generate, a program is sampled (width 1), an
utterance is drawn after it (width 5), and the program is discarded. Malformed programs are kept,
as in the paper.
"""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from trainables.generation._material import (
    PARSES,
    UTTERANCES,
    Drawer,
    Drawn,
    Material,
    Plan,
    StageTexts,
)
from trainables.sections import NoPrompts, ProgramsConfig, StagedConfig, TextConfig

STAGES = (PARSES, UTTERANCES)
READS_PROGRAMS = True
READS_PROMPTS = False


class Config(NoPrompts, StagedConfig, ProgramsConfig, TextConfig):
    """The fields of `synthesis` with `method: two_stage`."""

    method: Literal["two_stage"] = "two_stage"

    @model_validator(mode="after")
    def _epochs_of_both_stages(self) -> Config:
        if self.parse_epochs is None:
            raise ValueError("expected parse_epochs (T1) with method=two_stage, got none")
        return self


def texts(stage: str, material: Material) -> StageTexts:
    """Training texts of the model of `stage`."""
    if stage == PARSES:
        return StageTexts(material.programs)
    return StageTexts(material.utterances, material.programs)


def draw(drawer: Drawer, plan: Plan) -> Drawn:
    """Draw programs, then an utterance after each."""
    programs = drawer(PARSES, number=plan.number, prompts=None, num_beams=1)
    found = drawer(UTTERANCES, number=len(programs), prompts=programs, num_beams=plan.num_beams)
    return Drawn(found, programs)
