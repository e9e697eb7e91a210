"""A causal language model of GPT-2's shape (Radford et al. 2019), small, over packed
rows.

Pre-norm blocks, learned positions, GELU in its tanh form, output scores by the
transposed word table. The layers support book-keeping, so clipped sums of per-record
gradients are exact, the tied table included. `model.encoder` is the source of weights:
`scratch`, a local directory or a hub name (GPT-2's weights fit this module; see
`_hub_lm` for other models).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from trainables.config.sections import Depth, ModelConfig, Rate, Width
from trainables.errors import InvalidInput
from trainables.fields import MAX_WIDTH, ReadOnlyIf

if TYPE_CHECKING:
    from trainables.models.text.causal_lm import CausalLm

_SCRATCH = ReadOnlyIf(encoder="scratch")


class Config(ModelConfig):
    """The fields of `model` with `name: causal_lm`; 2.9 million parameters at 2,048
    words.
    """

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


def config_of(model: ModelConfig) -> Config:
    """The model of a synthesis trial, which must be this one, with the type of its
    fields.

    Raises: InvalidInput naming the model for another one.
    """
    if not isinstance(model, Config):
        raise InvalidInput(f"expected model.name=causal_lm, got {model.name}")
    return model


def build(config: Config, *, vocabulary: int, positions: int, seed: int) -> CausalLm:
    """A model from scratch for records of at most `positions` tokens out of
    `vocabulary` ids, its weights drawn from `seed` alone, so that equal arguments give
    equal weights.

    Raises: InvalidInput where the width is no multiple of the heads.
    """
    from trainables.models.text.causal_lm import CausalLm, LmSizes

    sizes = LmSizes(
        vocabulary=vocabulary,
        width=config.hidden_size,
        layers=config.num_layers,
        heads=config.num_heads,
        intermediate=config.intermediate_size,
        positions=positions,
    )
    return CausalLm(sizes, dropout=config.dropout, seed=seed)
