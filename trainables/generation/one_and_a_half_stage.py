"""A model of utterances behind a short prompt (Mireshghallah et al. 2022, "1.5-stage").

The prompt is the domain, or the set of function types, and is drawn from a histogram. The paper
takes the private records' own frequencies, unaccounted; here they are released with Gaussian noise
by default (`histogram`). Function types as prompts are the cheap form of a first stage that CTCL
(2025) has with topics.
"""

from __future__ import annotations

from typing import Literal

from trainables.generation._material import (
    UTTERANCES,
    Drawer,
    Drawn,
    Material,
    Plan,
    StageTexts,
)
from trainables.synthesis_section import PROGRAM_FIELDS, STAGE_FIELDS, SynthesisConfig

KIND = "method"
STAGES = (UTTERANCES,)
READS_PROGRAMS = False  # prompts may be derived from them
READS_PROMPTS = True


class Config(SynthesisConfig):
    """The fields of `synthesis` with `method: one_and_a_half_stage`."""

    method: Literal["one_and_a_half_stage"] = "one_and_a_half_stage"
    lacks = STAGE_FIELDS

    def unread(self) -> frozenset[str]:
        """Programs where prompts are domains, noise where the histogram has none."""
        programs = PROGRAM_FIELDS if self.prompt == "domain" else frozenset()
        noise = {"histogram_noise_multiplier"} if self.histogram != "dp" else set()
        return programs | noise


def texts(stage: str, material: Material) -> StageTexts:
    """Training texts of the model of `stage`."""
    return StageTexts(material.utterances, material.prompts)


def draw(drawer: Drawer, plan: Plan) -> Drawn:
    """Draw prompts by their frequencies, and an utterance after each."""
    prompts = plan.draw_prompts()
    found = drawer(UTTERANCES, number=len(prompts), prompts=prompts, num_beams=plan.num_beams)
    return Drawn(found, prompts)
