"""The sections of a trial's config: records, model, mechanism, training, evaluation,
text.

A section is a union of the classes of its registry. Each is composed of the groups of
fields here that its component reads, and has constants in place of others that
code of any entry asks for. Field names are those of the glossary; the text under a
field is its meaning in `sweep fields` and in the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from trainables.catalogue import NameOf, load
from trainables.dp.seeding import stream_seed, torch_seeded
from trainables.errors import InvalidInput
from trainables.fields import (
    INTERNAL_DISCRIMINATOR,
    MAX_EPOCHS,
    MAX_NUMBER,
    MAX_RECORDS,
    MAX_ROWS,
    MAX_SEED,
    MAX_WIDTH,
    Count,
    Frozen,
    Listed,
    PositiveFloat,
    ReadOnlyIf,
    fixed_fields,
)

SplitMode = Literal["paper", "official", "bernoulli", "paired", "hash"]
# Percent of the units of a hash split that train, validate and test. Another number, or
# another way to compute the hash, is another function: raise the version.
HASH_PERCENT, HASH_VERSION = (70, 10, 20), 1
RANDOM_SPLITS: tuple[SplitMode, ...] = (
    "bernoulli",
    "paired",
)  # random membership of each record, or of one of each pair
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]
Epochs = Annotated[int, Field(ge=1, le=MAX_EPOCHS)]
EpochsOrNone = Annotated[int, Field(ge=0, le=MAX_EPOCHS)]
Steps = Annotated[int, Field(ge=1, le=1_000_000)]
Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]
Depth = Annotated[int, Field(ge=1, le=1_000)]
Rate = Annotated[float, Field(ge=0, lt=1)]


class DataConfig(Frozen):
    """The fields of the records for training, validation and test, and what a data set
    can do. A data set adds its fields and overrides the abilities in which it differs.
    """

    kind: ClassVar[str]
    """frames: utterances with an intent and slots; pairs: utterances with a program"""
    is_public: ClassVar[bool] = False
    """whether its records are published; of private ones no size, label or message may
    leave without an epsilon or a declaration
    """
    licence: ClassVar[str] = ""
    """the licence of its records, for the card of an encoder that learned from them"""
    source: ClassVar[str | None] = None
    """where a public one is published, for who does not have it; None: nowhere"""
    place: ClassVar[str]
    """its file or folder under the data directory, where `path` names none"""
    domains: ClassVar[tuple[str, ...] | None] = None
    """the public list of its domains; use it for pairs whose prompts are domains, so
    that the bins of a histogram do not come from the records
    """

    name: str
    """entry of trainables/data/datasets"""
    split: SplitMode = "paper"
    """paper: 45:5:50 over the pooled files (Dupuy et al. 2021, 4.1); official: the
    corpus' own parts; hash: 70:10:20, each record by the hash of its text, or of its
    group where it has one; bernoulli, paired: random membership of each record, or of
    one of each matched pair, in each trial
    """
    split_seed: Seed = 0
    """seed of the split"""
    max_records: Annotated[int, Field(ge=20, le=MAX_RECORDS)] | None = None
    """number of records sampled from the pool with split_seed; default: all"""
    num_records: Count | None = None
    """declared, public size n of the training part (number of groups with
    privacy.unit=group); without it the size of private data is an unaccounted release
    """

    def files(self, path: Path) -> tuple[Path, ...]:
        """The files to read in `path`, which are known before any is opened; empty for
        records that are generated.

        Raises: InvalidData where one is missing.
        """
        raise NotImplementedError

    def read(self, path: Path) -> Iterator[Any]:
        """The records in `path`, one after another in a fixed order: an `Utterance` of
        kind frames, a `Pair` of kind pairs.

        Raises: InvalidData with file and line, and without a record's text, for a file
            that is missing or damaged.
        """
        raise NotImplementedError

    def labels(self, path: Path) -> Any:
        """The `LabelSchema` of the records in `path`, of kind frames.

        Raises: InvalidInput for another kind; InvalidData as `read`.
        """
        raise InvalidInput(
            f"expected a data set of utterances with labels, got data.name={self.name}"
        )

    def recipe(self) -> str | None:
        """SHA-256 (hex) of everything that determines records that are generated; use
        it where there are no files, because it then identifies the cached corpus. None:
        there are files.
        """
        return None

    def pool_size(self) -> int | None:
        """The number of distinct records where it is public without opening them; None:
        they would have to be counted.
        """
        return None

    @property
    def split_name(self) -> str:
        """The function that gives each record its part, for a ledger. Equal names are
        equal functions, whatever the data set.
        """
        shares = ":".join(map(str, HASH_PERCENT))
        return f"{self.split} {HASH_VERSION}, {shares}, seed {self.split_seed}"


class ModelConfig(Frozen):
    """The fields of a model, and what plans know of it without torch. A model adds its
    fields and overrides the abilities in which it differs.
    """

    kind: ClassVar[str]
    """frames: utterances to intents and slots; text: a language model"""
    component: ClassVar[str]
    """`module:class` of the model, whose `build` takes this config and the inputs of
    `build` here
    """
    shadow_training: ClassVar[Mapping[str, Any]] = {"learning_rate": 1e-3}
    """training of the shadow model that attacks one of kind frames"""
    is_built_when_planned: ClassVar[bool] = False
    """whether a plan builds the model once for its data; use it where building can fail
    for reasons that no field shows
    """
    note: ClassVar[str | None] = None
    """a sentence for every plan with this model; use it for what a user must provide"""

    name: str
    """entry of trainables/models"""

    @property
    def has_prior(self) -> bool:
        """Whether the model says something of a record before any was trained on; use
        it for a model whose initial scores read public texts. Only such a model can be
        evaluated without training.
        """
        return False

    @property
    def pass_cost(self) -> float:
        """Rough processor time of a training pass over a record, in that of a CLC."""
        return 1.0

    @property
    def encoding_cost(self) -> float:
        """The same of computing the inputs of a record once, for all trials."""
        return 0.0

    @property
    def is_random(self) -> bool:
        """Whether weights are drawn at the start, or parts dropped in training."""
        return True

    @property
    def trains_part(self) -> bool:
        """Whether public weights are trained only in part, or through adapters; use it
        so that a trial checks that every trained weight has changed.
        """
        return False

    @property
    def own_code(self) -> str | None:
        """The "module:function" of a user's code that the model runs; None: it runs
        none. A saved model is opened only where the user names the same code.
        """
        return None

    def require_usable(self, data: DataConfig) -> None:
        """Refuse what no trial can train on `data`, before any is started; by default
        nothing. Use it for files and packages that the fields name, and for an encoder
        that was pretrained on these records, which no epsilon would cover.

        Raises: InvalidInput naming the field and what is allowed; InvalidData for
            damaged files.
        """

    def missing(self) -> str | None:
        """What is not installed that the model needs, and how to install it, as a
        sentence without its full stop; None: nothing. Use it for extras, so that a plan
        says it for all of its trials at once.
        """
        return None

    def build(self, **inputs: Any) -> Any:
        """The model, on the CPU; equal inputs give equal weights. Of kind frames an
        `NluModel` for the `schema` of the labels; of kind text an `LmModule` for a
        `vocabulary` of so many ids and records of at most so many `positions`. What is
        not loaded is drawn from the int `seed`.

        Raises: InvalidInput where a file, an encoder or a size does not fit;
            InvalidData where files are damaged.
        """
        with torch_seeded(stream_seed(inputs["seed"], "model", self.name)):
            return load(self.component).build(self, **inputs)


class TotalNoise(Frozen):
    """Replaces a learning rate by that of this noise (`privacy.learning_rate`), which
    transfers.
    """

    total_noise: PositiveFloat
    """standard deviation of the noise that all steps add to a weight"""


class WorkersConfig(Frozen):
    """The workers of a trial."""

    physical_batch_size: Count | None = None
    """records per forward pass of a worker; affects memory, not the result"""
    num_workers: Annotated[int, Field(ge=1, le=10_000)] = 1
    """number of logical workers N (Algorithm 1); fewer processes may compute them"""


def _tenth(given: dict[str, Any]) -> int:
    return max(1, -(-(given.get("steps") or 0) // 10))


def _pieces(given: dict[str, Any]) -> int:
    steps = given.get("steps")
    return 30 if steps is None else -(-steps // given.get("evaluate_every", 1))


class TrainingConfig(WorkersConfig):
    """The fields of `training`: the optimisation of a trial. Its length is counted in
    epochs, or in `steps`, of which `evaluate_every` make an epoch. Batch sizes are in
    records over all workers; the learning rate is a number, or follows from the noise.
    No field but the number of steps, batch and workers changes what is released.
    """

    name: Annotated[Literal["with steps"], INTERNAL_DISCRIMINATOR] = "with steps"
    steps: Annotated[Steps | None, Field(exclude_if=lambda steps: steps is None)] = None
    """number of steps T instead of epochs; needs sampling poisson or full, accounted
    per step
    """
    evaluate_every: Annotated[Steps, ReadOnlyIf(steps=int)] = Field(
        default_factory=_tenth
    )
    """number of steps that count as one epoch, after which the model is validated,
    saved and charged; default: a tenth of the steps
    """
    epochs: Annotated[Epochs, ReadOnlyIf(steps=None)] = Field(default_factory=_pieces)
    """number of epochs E, 30 by default; with full batches an epoch is one step"""
    keep: Annotated[
        Literal["best", "last"], Field(exclude_if=lambda kept: kept == "best")
    ] = "best"
    """epoch whose weights the trial keeps: the one of least validation metric, or the
    last
    """
    expected_batch_size: Count = 64
    """expected batch size B over all workers"""
    learning_rate: PositiveFloat | TotalNoise = 1e-3
    """learning rate at the first step; total_noise computes it from n, the noise and
    the steps
    """
    optimizer: Annotated[str, NameOf("optimizers")] = "adam"
    """entry of trainables/dp/optimizers"""
    learning_rate_decay: Annotated[str, NameOf("learning_rates")] = "constant"
    """schedule of the learning rate, an entry of trainables/dp/learning_rates"""
    gradient_clip_norm: PositiveFloat | None = None
    """largest norm of a step's mean gradient, for engines without privacy; default: no
    limit
    """
    precision: Literal["fp32", "bf16"] = "fp32"
    """precision of products in training; norms, clipped sums, noise, weights and Adam
    are fp32
    """
    seed: Seed = 0
    """seed of initialisation and dropout, never of noise"""

    @model_validator(mode="after")
    def _few_pieces(self) -> TrainingConfig:
        if self.steps is not None and self.epochs > MAX_EPOCHS:
            raise ValueError(
                f"expected training.evaluate_every >= {-(-self.steps // MAX_EPOCHS)}"
                f" with steps={self.steps}, got {self.evaluate_every}"
            )
        return self


@fixed_fields(TrainingConfig, epochs=1, evaluate_every=1)
class NoTraining(WorkersConfig):
    """The section of an engine that takes no step."""

    name: Annotated[Literal["without a step"], INTERNAL_DISCRIMINATOR] = (
        "without a step"
    )


class EvaluationConfig(Frozen):
    """The fields of `evaluation`: what is measured after training, on the test part and
    by attacks. None of them changes the trained weights or the epsilon; figures of
    attacks read private records and are for the curator.
    """

    attacks: Listed[Annotated[str, NameOf("attacks")]] | None = None
    """entries of trainables/attacks; default: all that the split allows"""
    shadow_corpus: str | None = None
    """entry of trainables/data/datasets; default: a public corpus that is not the
    target
    """
    ser_align: Literal["name", "edit"] = "name"
    """slots are aligned by name or by edit distance"""
    ser_match: Literal["span", "value"] = "span"
    """slots are compared by their tokens or by their text"""
    bootstrap_samples: Annotated[int, Field(ge=0, le=1_000_000)] = 1_000
    """resamples of intervals; 0: no intervals"""


class TextConfig(Frozen):
    """The fields of `synthesis` that every method reads: the public part and its
    pretraining, the vocabulary, adapters, and how many utterances are drawn and how.
    Lengths are in tokens, epochs in passes over the public texts.
    """

    measuring_parser_epochs: EpochsOrNone = 8
    """epochs of the parser of held-out human text that evaluates generated text; 0: no
    parser
    """
    public_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """share of the training part that is declared public"""
    remove_function: str | None = None
    """function that the public part must not use (Name, or Name* for a prefix)"""
    only_function: str | None = None
    """keep only private records that use this function (few modes)"""
    vocabulary_size: Annotated[int, Field(ge=300, le=1_000_000)] = 2_048
    """vocabulary size of the public BPE"""
    max_tokens: Annotated[int, Field(ge=16, le=MAX_WIDTH)] = 128
    """largest number of tokens per record, prompt included"""
    pretrain_epochs: EpochsOrNone = 3
    """epochs on public text before private training"""
    pretrain_learning_rate: PositiveFloat = 1e-3
    """learning rate on public text"""
    lora_rank: Width | None = None
    """rank of LoRA adapters, which are then the only trained weights"""
    lora_alpha: Annotated[PositiveFloat, ReadOnlyIf(lora_rank=int)] = 32.0
    """adapters are scaled by lora_alpha / lora_rank"""
    num_generated: Annotated[int, Field(ge=2, le=MAX_ROWS)] = 2_000
    """number of utterances generated for evaluation"""
    num_beams: Annotated[int, Field(ge=1, le=1_000)] = 5
    """beam width for utterances with a prompt; 1 otherwise"""
    top_k: Annotated[int, Field(ge=1, le=1_000_000)] = 50
    """number of most probable tokens to sample from"""
    temperature: Annotated[float, Field(ge=1e-6, le=MAX_NUMBER)] = 1.0
    """temperature of the sampling"""


class StagedConfig(Frozen):
    """Two models in a row."""

    parse_epochs: int | None = None
    """T1, epochs of the parse model (two_stage); T2 is training.epochs - T1"""
    shuffle_pairs: bool = False
    """exchange the programs within pairs of records; a pair is then the privacy unit"""


class PromptedConfig(Frozen):
    """Utterances behind a prompt."""

    prompt: Literal["domain", "function_types"] = "domain"
    """one_and_a_half_stage: kind of prompt"""
    histogram: Literal["dp", "public", "true"] = "dp"
    """one_and_a_half_stage: source of the prompts' frequencies; true: private records
    without noise (as in the paper, no finite epsilon)
    """
    histogram_noise_multiplier: Annotated[PositiveFloat, ReadOnlyIf(histogram="dp")] = (
        20.0
    )
    """standard deviation of the noise on the counts of the dp histogram"""


class ProgramsConfig(Frozen):
    """Programs of the private records."""

    parses: Annotated[
        Literal["parser", "gold"], ReadOnlyIf(prompt="function_types")
    ] = "parser"
    """source of private programs: a parser trained on the public part, or the corpus"""
    parser_epochs: Annotated[Epochs, ReadOnlyIf(prompt="function_types")] = 64
    """epochs of the low-resource parser, many because pairs are few"""


class SynthesisConfig(TextConfig, StagedConfig, PromptedConfig, ProgramsConfig):
    """All fields of `synthesis` that code of any method asks for. A method's own class
    has a part of them, and constants in place of the others (`fixed_fields`); a config
    has the section only with task=synthesis.
    """

    method: str = "one_stage"
    """entry of trainables/generation"""
