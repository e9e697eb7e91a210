"""The models as configs and plans know them: their fields, what they can do, and the
class that is built from them. No torch: that class is imported when a model is built.

A class is one model, and `ENTRIES` of this package lists it. It states its abilities by
overriding those of `ModelConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue, field_validator, model_validator

from trainables.config.sections import DataConfig, Depth, ModelConfig, Rate, Width
from trainables.errors import InvalidData, InvalidInput
from trainables.fields import (
    MAX_ROWS,
    MAX_WIDTH,
    Listed,
    NotNegative,
    PositiveFloat,
    ReadOnlyIf,
)
from trainables.models.encoders.about import MOMENTS, NAMES, shipped_encoders
from trainables.models.encoders.hub import PublicEncoder, public_encoder
from trainables.models.user_module import factory as factories

# Families whose layers are ours under other names, so that exact clipping can train
# them.
COVERED = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
NO_NAMES = (
    "expected model.prior=none with model.encoder={}: it has learned no names of labels"
    " (an encoder of `sweep pretrain` has)"
)
Layers = Annotated[Listed[int], Field(min_length=1)]
LayersOfEach = Annotated[Listed[Layers | None], Field(min_length=1)]
Several = Annotated[Listed[str], Field(min_length=1, max_length=8)]
_SCRATCH = ReadOnlyIf(encoder="scratch")


class BertConfig(ModelConfig):
    """A BERT encoder (Devlin et al. 2019) with an intent head and a CRF on first word
    pieces.

    The default sizes are the paper's (Dupuy et al. 2021, 4.2): 4 layers, 12 heads,
    width 312, feed-forward 1200. `encoder` is `scratch` (random weights, hashed pieces,
    no vocabulary), a shipped one, `minilm` (an extra), a local folder or a hub name, of
    which the first `num_layers` layers are used.
    """

    kind = "frames"
    component = "trainables.models.nlu.bert:Bert"
    shadow_training: ClassVar[Mapping[str, Any]] = {"learning_rate": 3e-4}

    name: Literal["bert"] = "bert"
    encoder: str = "scratch"
    """scratch | a shipped encoder | minilm (extra) | a folder or hub name of a BERT,
    RoBERTa, XLM-RoBERTa, CamemBERT or ELECTRA
    """
    trained: Literal["all", "biases"] = "all"
    """biases: only biases, norms and the heads (BitFit, Bu et al. 2022); frozen weights
    take no share of the clip norm and no noise
    """
    num_layers: Depth = 4
    """number of encoder layers, the first ones of a loaded encoder; default: 4, or all
    of a folder with fewer
    """
    word_buckets: Annotated[int, _SCRATCH, Field(ge=3, le=MAX_ROWS)] = 8_192
    """scratch: number of buckets of hashed pieces"""
    hidden_size: Annotated[int, _SCRATCH, Field(ge=2, le=MAX_WIDTH)] = 312
    """scratch: width"""
    num_heads: Annotated[Width, _SCRATCH] = 12
    """scratch: number of attention heads"""
    intermediate_size: Annotated[int, _SCRATCH, Field(ge=1, le=10 * MAX_WIDTH)] = 1_200
    """scratch: feed-forward width"""
    dropout: Rate = 0.1
    """dropout rate"""
    pooling: Literal["first", "mean"] = "first"
    """what the intent head reads: the state of [CLS], or the mean over all pieces,
    which encoders of sentences such as MiniLM were trained with
    """

    @model_validator(mode="before")
    @classmethod
    def _fill_in_layers(cls, fields: Any) -> Any:
        """A folder with fewer layers than the default is used whole."""
        if not isinstance(fields, dict) or fields.get("num_layers") is not None:
            return fields
        found = _layers_of(fields.get("encoder"))
        default = cls.model_fields["num_layers"].default
        return (
            fields
            if found is None or found >= default
            else {**fields, "num_layers": found}
        )

    @property
    def trains_part(self) -> bool:
        """With `trained: biases`."""
        return self.trained != "all"

    def require_usable(self, data: DataConfig) -> None:
        """As `ModelConfig.require_usable`, for an encoder that is not `scratch`."""
        if self.encoder != "scratch":
            self.covered_encoder().refuse_learnt(data)

    def covered_encoder(self) -> PublicEncoder:
        """The public encoder whose first `self.num_layers` layers are trained: one of a
        family in `COVERED` with gelu, absolute positions and embeddings as wide as its
        layers, because only these layers can clip by record here.

        Raises: InvalidData where it cannot be found or is of another kind, with the
        reason; InvalidInput where it has fewer layers.
        """
        found = public_encoder(self.encoder)
        about, other = found.config, ""
        if about.model_type not in COVERED:
            other = f"family {about.model_type}"
        elif about.activation != "gelu":
            other = f"activation {about.activation}"
        elif about.embedding_size not in (None, about.width):
            other = f"embeddings of width {about.embedding_size}"
        elif about.position_embedding_type not in (None, "absolute"):
            other = "positions that are relative"
        if other:
            raise InvalidData(
                "expected model.encoder of a family whose layers can be trained"
                f" ({', '.join(COVERED)}; gelu, embeddings as wide as layers), got"
                f" {self.encoder!r} with {other}; model.name=features reads it as it is"
            )
        if self.num_layers > about.num_layers:
            raise InvalidInput(
                f"expected model.num_layers <= {about.num_layers} with"
                f" model.encoder={self.encoder}, got {self.num_layers}"
            )
        return found


def _layers_of(encoder: Any) -> int | None:
    """The number of layers of an encoder on this disk; None for others and for unusable
    ones, which `require_usable` refuses.
    """
    if not isinstance(encoder, str) or not (
        encoder in shipped_encoders() or Path(encoder).expanduser().is_dir()
    ):
        return None
    try:
        return public_encoder(encoder).config.num_layers
    except InvalidInput:
        return None


class ClcConfig(ModelConfig):
    """CLC: character CNN, word vectors, two biLSTM layers; intent head, CRF (Dupuy et
    al. 2021, 4.2).

    The default sizes are the paper's: 384 units a direction, two layers. Choices that
    it leaves open: the intent head reads the mean of the top layer's states over the
    utterance; characters are printable ASCII; word vectors are hashed unless a public
    file is named.
    """

    kind = "frames"
    component = "trainables.models.nlu.clc:Clc"

    name: Literal["clc"] = "clc"
    word_vectors: str = "hashed"
    """hashed | glove (a package) | a .vec or GloVe file"""
    word_buckets: Annotated[
        int,
        ReadOnlyIf(word_vectors="hashed"),
        ReadOnlyIf(freeze_embeddings=False),
        Field(ge=2, le=MAX_ROWS),
    ] = 8_192
    """number of buckets of hashed words; with a file, number of its first rows that are
    trained
    """
    word_dim: Annotated[Width, ReadOnlyIf(word_vectors="hashed")] = 50
    """width of hashed word vectors"""
    char_dim: Width = 16
    """width of character embeddings"""
    char_filters: Width = 50
    """number of filters of the character CNN"""
    char_kernel: Annotated[int, Field(ge=1, le=255)] = 3
    """kernel width of the character CNN, in characters"""
    hidden_size: Annotated[int, Field(ge=2, le=MAX_WIDTH)] = 384
    """size of the biLSTM state per direction"""
    num_layers: Depth = 2
    """number of biLSTM layers"""
    dropout: Rate = 0.1
    """dropout rate"""
    freeze_embeddings: bool = False
    """keep the loaded word vectors fixed"""

    def missing(self) -> str | None:
        """The package of GloVe, with `word_vectors: glove`."""
        from trainables.models.encoders import word_vectors

        lacks = word_vectors.lacks_package(self.word_vectors)
        return word_vectors.NO_GLOVE if lacks else None


class FeaturesConfig(ModelConfig):
    """Linear heads on the features of fixed encoders, for few records and a strong
    guarantee.

    The encoders are public and never trained here; their features are computed once for
    a corpus. Of several encoders, k, the rows are joined, each divided by the root of
    k, so that the norm is that of one. A tag head reads a token's row, in which are
    those of the tokens before and after it, an intent head the record's. The noise of a
    logit then grows with the norm of a row, not with the number of weights (Tramèr and
    Boneh 2021). No transitions are trained; decoding obeys the BIO rules and prefers to
    continue a slot by a fixed score. With `prior: names` the heads start at what the
    names of the labels say already (see `encoders.rows`).
    """

    kind = "frames"
    component = "trainables.models.nlu.features:Features"
    # Of the shadow model that attacks heads, however these are trained: they share one.
    shadow_training: ClassVar[Mapping[str, Any]] = {
        "optimizer": "lbfgs",
        "learning_rate": 1.0,
        "steps": 20,
        "evaluate_every": 20,
    }

    name: Literal["features"] = "features"
    encoder: str | Several = "dialogues"
    """a shipped encoder | a folder of `sweep pretrain` | a folder or hub name of a
    Hugging Face encoder (with prior: none) | minilm, mpnet (extras); a list: the rows
    of each, joined
    """
    layers: Layers | LayersOfEach | None = None
    """layers whose states are concatenated, 0 the embeddings, or of several encoders a
    list for each; default: those chosen by `sweep pretrain`, or the middle and the last
    layer of another encoder
    """
    whitening: PositiveFloat = 0.3
    """shrinkage of the public covariance"""
    neighbours: NotNegative = 0.4
    """weight of the rows of the previous and the next token, from the lowest of
    `layers`, in a token's row; 0: none
    """
    tag_weight: PositiveFloat = 1.0
    """weight of the tokens' losses relative to the intent's; it divides C between
    them
    """
    sure: Annotated[float, Field(gt=0, le=1)] = 0.95
    """probability of a token's tag from which on the token teaches nothing; 1: all
    teach
    """
    bias: NotNegative = 0.3
    """constant feature of every row"""
    span_bonus: NotNegative = 2.5
    """score, in nats, that a tag gains where it continues its slot; fixed, not learned;
    0: none
    """
    prior: Literal["names", "none"] = "names"
    """initial scores: from the names of the labels, as learned on the encoder's public
    corpora, or none
    """

    @field_validator("encoder", mode="before")
    @classmethod
    def _one_in_a_list(cls, value: Any) -> Any:
        """A list of one encoder is that encoder, so that both are one config."""
        return (
            value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
        )

    @model_validator(mode="after")
    def _layers_of_each(self) -> Any:
        given, number = self.layers, len(self.encoders)
        if given and not isinstance(given[0], int) and len(given) != number:
            raise ValueError(
                f"expected model.layers to be a list of numbers, or {number} of them,"
                f" one for each model.encoder, got {len(given)}"
            )
        return self

    @property
    def has_prior(self) -> bool:
        """With names."""
        return self.prior == "names"

    @property
    def pass_cost(self) -> float:
        """Two products a token."""
        return 0.1

    @property
    def encoding_cost(self) -> float:
        """A pass of every encoder."""
        return 12.0 * len(self.encoders)

    @property
    def is_random(self) -> bool:
        """Heads start at 0 and drop nothing."""
        return False

    @property
    def encoders(self) -> tuple[str, ...]:
        """The encoders by their names."""
        return (self.encoder,) if isinstance(self.encoder, str) else self.encoder

    def layers_of(self, number: int) -> tuple[int, ...] | None:
        """The layers of the encoder of that place, counted from 0; None: its
        default.
        """
        given: Any = self.layers
        is_of_all = given is None or isinstance(given[0], int)
        found: tuple[int, ...] | None = given if is_of_all else given[number]
        return found

    def require_usable(self, data: DataConfig) -> None:
        """As `ModelConfig.require_usable`, for each encoder."""
        has_names = False
        for number, encoder in enumerate(self.encoders):
            public = public_encoder(encoder)
            public.refuse_learnt(data)
            if public.about and not (public.place / MOMENTS).is_file():
                raise InvalidData(
                    f"expected {MOMENTS} in the folder of model.encoder={encoder}, got"
                    " none"
                )
            has_names |= (public.place / NAMES).is_file()
            self.require_layers(number, public.layers)
        if self.has_prior and not has_names:
            raise InvalidInput(NO_NAMES.format(", ".join(self.encoders)))

    def require_layers(self, number: int, there: Sequence[int]) -> None:
        """Refuse a layer that is not among the layers `there` of the encoder of that
        place, counted from 0.

        Raises: InvalidInput with the layers that it has.
        """
        chosen = self.layers_of(number) or ()
        if not set(chosen) <= set(there):
            raise InvalidInput(
                f"expected model.layers among {list(there)} with"
                f" model.encoder={self.encoders[number]}, got {list(chosen)}"
            )


class LoraConfig(ModelConfig):
    """A public encoder of any family with low-rank adapters, an intent head and a tag
    head.

    `encoder` is a shipped one, a folder or a hub name, read by `transformers` and
    frozen (Hu et al. 2022; under DP: Yu et al. 2022). Adapters are added to its linear
    maps, by default those of queries and values, and clipping by record is exact.
    Memory grows with `training.physical_batch_size`, which has a default here, and not
    with the batch. No transitions are trained; decoding obeys the BIO rules.
    """

    kind = "frames"
    component = "trainables.models.nlu.hub_encoder:AdaptedEncoder"
    is_built_when_planned = True

    name: Literal["lora"] = "lora"
    encoder: str = "dialogues"
    """a shipped encoder | minilm, mpnet (extras) | a folder or hub name of an encoder
    of `transformers`
    """
    lora_rank: Annotated[int, Field(ge=1)] = 8
    """rank of the adapters"""
    lora_alpha: PositiveFloat = 16.0
    """the output of the adapters is scaled by alpha / rank"""
    lora_targets: Annotated[Listed[str], Field(min_length=1)] | None = None
    """linear maps with adapters, by the last part of their names; default: those of
    queries and values
    """
    frozen_weights: Literal["fp32", "bf16"] = "fp32"
    """type of the frozen maps in memory; bf16 takes half, and less time with
    training.precision=bf16"""

    @property
    def trains_part(self) -> bool:
        """Always."""
        return True

    def require_usable(self, data: DataConfig) -> None:
        """As `ModelConfig.require_usable`, for the encoder."""
        public_encoder(self.encoder).refuse_learnt(data)


class OwnCodeConfig(ModelConfig):
    """A model of your own code: any `nn.Module` that scores the words and the whole of
    an utterance.

    `factory` names a function `build(labels, **options)`, imported from the working
    directory or the Python path, which gives the module. Its `forward(words)` reads
    utterances of equal length, [B, T], and returns the scores of tags [B, T, tags] and
    of intents [B, intents]. Gradients are clipped exactly, record by record, by
    `torch.func`: slower than the layers of the other models.
    """

    kind = "frames"
    component = "trainables.models.user_module.network:OwnModel"
    is_built_when_planned = True
    note = (
        "Own code (model.name=module) is clipped record by record with torch.func:"
        " exact, and slower than the layers of the other models. Each process must be"
        " able to import the factory."
    )

    name: Literal["module"] = "module"
    factory: str = ""
    """package.module:function that builds the module"""
    options: dict[str, JsonValue] = Field(default={})
    """arguments of the function in addition to the labels"""
    word_buckets: Annotated[int, Field(ge=2, le=MAX_ROWS)] = 8_192
    """number of buckets of hashed words; a module with encode_word(word) encodes words
    itself
    """
    source: Annotated[str | None, Field(pattern="^[0-9a-f]{64}$")] = None
    """SHA-256 of the function's file, filled in automatically; changed code makes
    another trial
    """

    @model_validator(mode="before")
    @classmethod
    def _source_is_known(cls, fields: Any) -> Any:
        factory = fields.get("factory") if isinstance(fields, dict) else None
        if (
            not isinstance(factory, str)
            or not factory
            or fields.get("source") is not None
        ):
            return fields
        try:
            return {**fields, "source": factories.digest_of(factory)}
        except InvalidInput as problem:
            raise ValueError(str(problem)) from None

    @property
    def own_code(self) -> str | None:
        """The factory."""
        return self.factory

    def require_usable(self, data: DataConfig) -> None:
        """Look for the code, before any trial starts.

        Raises: InvalidInput where it cannot be found or is not what was planned.
        """
        factories.require_source(self.factory, self.source)


class CausalLmConfig(ModelConfig):
    """A causal language model of GPT-2's shape (Radford et al. 2019), small, over
    packed rows; 2.9 million parameters at 2,048 words.

    Pre-norm blocks, learned positions, GELU in its tanh form, output scores by the
    transposed word table. Clipped sums of per-record gradients are exact, the tied
    table included. `encoder` is the source of weights: `scratch`, a local directory or
    a hub name (GPT-2's weights fit this model; `text.hub_lm` has others).
    """

    kind = "text"
    component = "trainables.models.text.causal_lm:CausalLm"

    name: Literal["causal_lm"] = "causal_lm"
    encoder: str = "scratch"
    """scratch | a local directory | a hub name"""
    hidden_size: Annotated[int, _SCRATCH, Field(ge=2, le=MAX_WIDTH)] = 192
    """scratch: width"""
    num_layers: Annotated[Depth, _SCRATCH] = 4
    """scratch: number of blocks"""
    num_heads: Annotated[Width, _SCRATCH] = 12
    """scratch: number of attention heads"""
    intermediate_size: Annotated[int, _SCRATCH, Field(ge=1, le=10 * MAX_WIDTH)] = 1_200
    """scratch: feed-forward width"""
    dropout: Annotated[Rate, _SCRATCH] = 0.1
    """scratch: dropout rate; a loaded model trains without dropout"""


def text_model(model: ModelConfig) -> CausalLmConfig:
    """The model of a synthesis trial, which must be `causal_lm`, with the type of its
    fields.

    Raises: InvalidInput naming the model for another one.
    """
    if not isinstance(model, CausalLmConfig):
        raise InvalidInput(f"expected model.name=causal_lm, got {model.name}")
    return model
