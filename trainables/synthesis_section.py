"""The section of a config on generating text (Mireshghallah et al. 2022, "P2")."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainables.frozen import MAX_EPOCHS, MAX_NUMBER, MAX_ROWS, MAX_WIDTH, Frozen, PositiveFloat


class SynthesisConfig(Frozen):
    """The generation of utterances, with task=synthesis. An entry of generation lists the fields
    that it lacks.
    """

    section = "synthesis"
    method: str = Field("one_stage", description="entry of trainables/generation")
    parse_epochs: int | None = Field(
        None, description="T1, epochs of the parse model (two_stage); T2 is training.epochs - T1"
    )
    only: Literal["parses", "utterances"] | None = Field(
        None,
        description="two_stage: train only this stage, for training.epochs; another"
        " trial trains the other stage",
    )
    other_epochs: int | None = Field(
        None,
        ge=1,
        le=MAX_EPOCHS,
        description="with only: epochs of the other stage, which the accounting includes",
    )
    prompt: Literal["domain", "function_types"] = Field(
        "domain", description="one_and_a_half_stage: kind of prompt"
    )
    histogram: Literal["dp", "public", "true"] = Field(
        "dp",
        description="one_and_a_half_stage: source of the prompts' frequencies; true:"
        " private records without noise (as in the paper, no finite epsilon)",
    )
    histogram_noise_multiplier: PositiveFloat = Field(
        20.0, description="standard deviation of the noise on the counts of the dp histogram"
    )
    parses: Literal["parser", "gold"] = Field(
        "parser",
        description="source of private programs: a parser trained on the public part,"
        " or the corpus",
    )
    parser_epochs: int = Field(
        64,
        ge=1,
        le=MAX_EPOCHS,
        description="epochs of the low-resource parser, many because pairs are few",
    )
    measuring_parser_epochs: int = Field(
        8,
        ge=0,
        le=MAX_EPOCHS,
        description="epochs of the parser that evaluates generated text, trained on"
        " held-out human text; 0: no figures of functions",
    )
    public_fraction: float = Field(
        0.1, gt=0, lt=1, description="share of the training part that is declared public"
    )
    remove_function: str | None = Field(
        None, description="function that the public part must not use (Name, or Name* for a prefix)"
    )
    only_function: str | None = Field(
        None, description="keep only private records that use this function (few modes)"
    )
    shuffle_pairs: bool = Field(
        False,
        description="exchange the programs within pairs of records; a pair is then"
        " the privacy unit",
    )
    vocabulary_size: int = Field(
        2_048, ge=300, le=1_000_000, description="vocabulary size of the public BPE"
    )
    max_tokens: int = Field(
        128, ge=16, le=MAX_WIDTH, description="largest number of tokens per record, prompt included"
    )
    pretrain_epochs: int = Field(
        3, ge=0, le=MAX_EPOCHS, description="epochs on public text before private training"
    )
    pretrain_learning_rate: PositiveFloat = Field(1e-3, description="learning rate on public text")
    lora_rank: int | None = Field(
        None,
        ge=1,
        le=MAX_WIDTH,
        description="rank of LoRA adapters, which are then the only trained weights",
    )
    lora_alpha: PositiveFloat = Field(
        32.0, description="adapters are scaled by lora_alpha / lora_rank"
    )
    num_generated: int = Field(
        2_000, ge=2, le=MAX_ROWS, description="number of utterances generated for evaluation"
    )
    num_beams: int = Field(
        5, ge=1, le=1_000, description="beam width for utterances with a prompt; 1 otherwise"
    )
    top_k: int = Field(
        50, ge=1, le=1_000_000, description="number of most probable tokens to sample from"
    )
    temperature: float = Field(
        1.0, ge=1e-6, le=MAX_NUMBER, description="temperature of the sampling"
    )

    @classmethod
    def title(cls) -> str:
        """The method that the fields belong to."""
        return f"method {cls.model_fields['method'].default}"


# Fields that only some methods have: two models, prompts, programs of the private records.
STAGE_FIELDS = frozenset({"parse_epochs", "only", "other_epochs", "shuffle_pairs"})
PROMPT_FIELDS = frozenset({"prompt", "histogram", "histogram_noise_multiplier"})
PROGRAM_FIELDS = frozenset({"parses", "parser_epochs"})
