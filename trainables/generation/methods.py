"""The ways to generate utterances: the fields of `synthesis`, the stages of each
method, what their models are trained on, and how they are drawn from. No torch.

A class is one method, and `ENTRIES` of this package lists it. It states its abilities
by overriding those of `GenerationMethod`.
"""

from abc import abstractmethod
from typing import ClassVar, Literal

from trainables.config.sections import (
    ProgramsConfig,
    PromptedConfig,
    StagedConfig,
    SynthesisConfig,
    TextConfig,
)
from trainables.fields import fixed_fields
from trainables.generation.material import (
    PARSES,
    UTTERANCES,
    GeneratedTexts,
    Plan,
    StageTexts,
    TextSampler,
    TrainingTexts,
)


class GenerationMethod(TextConfig):
    """The fields that every method reads, and its abilities."""

    stages: ClassVar[tuple[str, ...]] = (UTTERANCES,)
    """names of the models that are trained one after another on the same records, the
    last one that of utterances
    """
    reads_programs: ClassVar[bool] = False
    """whether it is trained on the programs of private records, by a parser or as
    given; use it so that data without programs are refused before training
    """
    reads_prompts: ClassVar[bool] = False
    """whether utterances stand behind prompts, whose frequencies are then released; use
    it so that the histogram is part of the mechanism
    """

    @classmethod
    def texts(cls, stage: str, material: TrainingTexts) -> StageTexts:
        """The training texts of the model of `stage`, one a record in the records'
        order; by default utterances without prompts.
        """
        return StageTexts(material.utterances)

    @classmethod
    @abstractmethod
    def draw(cls, sampler: TextSampler, plan: Plan) -> GeneratedTexts:
        """`plan.number` utterances from the trained models, each with its prompt ("":
        none). Equal plans draw equal texts.

        Raises: InvalidInput where no prompt has a positive frequency.
        """


@fixed_fields(SynthesisConfig, histogram="public")
class OneStage(GenerationMethod):
    """One model of utterances, sampled from nothing (Mireshghallah et al. 2022,
    "1-stage").
    """

    method: Literal["one_stage"] = "one_stage"

    @classmethod
    def draw(cls, sampler: TextSampler, plan: Plan) -> GeneratedTexts:
        """Draw from nothing."""
        found = sampler(UTTERANCES, [None] * plan.number)
        return GeneratedTexts(found, [""] * len(found))


@fixed_fields(SynthesisConfig)
class OneAndAHalfStage(PromptedConfig, ProgramsConfig, GenerationMethod):
    """A model of utterances behind a short prompt (Mireshghallah et al. 2022,
    "1.5-stage").

    The prompt is the domain, or the set of function types, and is drawn from a
    histogram. The paper takes the private records' own frequencies, unaccounted; here
    they are released with Gaussian noise by default (`histogram`). Function types as
    prompts are the cheap form of a first stage that CTCL (2025) has with topics.
    """

    reads_prompts = True

    method: Literal["one_and_a_half_stage"] = "one_and_a_half_stage"

    @classmethod
    def texts(cls, stage: str, material: TrainingTexts) -> StageTexts:
        """Utterances behind their prompts."""
        return StageTexts(material.utterances, material.prompts)

    @classmethod
    def draw(cls, sampler: TextSampler, plan: Plan) -> GeneratedTexts:
        """Draw prompts by their frequencies, and an utterance after each."""
        prompts = plan.draw_prompts()
        return GeneratedTexts(sampler(UTTERANCES, prompts), prompts)


@fixed_fields(SynthesisConfig, histogram="public")
class TwoStage(StagedConfig, ProgramsConfig, GenerationMethod):
    """A model of programs and one of utterances given a program (Mireshghallah et al.
    2022).

    Programs of private records come from a parser trained on public ones. Both models
    are trained on the same private records with the same noise. To generate, a program
    is sampled (width 1), an utterance is drawn after it (width 5), and the program is
    discarded. Malformed programs are kept, as in the paper.
    """

    stages = (PARSES, UTTERANCES)
    reads_programs = True

    method: Literal["two_stage"] = "two_stage"
    parse_epochs: int

    @classmethod
    def texts(cls, stage: str, material: TrainingTexts) -> StageTexts:
        """Programs, or utterances behind their programs."""
        if stage == PARSES:
            return StageTexts(material.programs)
        return StageTexts(material.utterances, material.programs)

    @classmethod
    def draw(cls, sampler: TextSampler, plan: Plan) -> GeneratedTexts:
        """Draw programs, then an utterance after each."""
        programs = sampler(PARSES, [None] * plan.number)
        return GeneratedTexts(sampler(UTTERANCES, programs), programs)
