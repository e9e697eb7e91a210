"""The trained parts of an encoder beside its heads: all, nothing, biases and norms, or adapters.

Frozen weights take no share of the clip norm and no noise, and record nothing on the tape. Layers
below the lowest trained one have no backward pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from trainables.errors import InvalidInput
from trainables.frozen import PositiveFloat, With
from trainables.sections import ModelConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn

    from trainables.models._nlu import NluModel


class EncoderConfig(ModelConfig):
    """The fields of a model whose encoder may be trained in part; a subclass has `num_layers`."""

    trained: Literal["all", "heads", "biases", "lora"] = Field(
        "all",
        description="heads: only the heads; biases: also biases and norms of"
        " top_layers (BitFit, Bu et al. 2022); lora: also low-rank"
        " adapters of top_layers (Hu et al. 2022, Yu et al. 2022)",
    )
    top_layers: Annotated[int | None, With(trained=("biases", "lora"))] = Field(
        None,
        ge=1,
        description="with partial training: number of trained layers from the top; default: all",
    )
    lora_rank: Annotated[int, With(trained="lora")] = Field(
        8, ge=1, description="lora: rank of the adapters"
    )
    lora_alpha: Annotated[PositiveFloat, With(trained="lora")] = Field(
        16.0, description="lora: the output of the adapters is scaled by alpha / rank"
    )

    @property
    def layers(self) -> int | None:
        """The number of layers; None where it depends on a file."""
        found: int = self.num_layers  # type: ignore[attr-defined]  # each model has its own
        return found

    @property
    def narrowest(self) -> int | None:
        """The width of the narrowest map that may be adapted, which is the highest rank; None where
        it depends on a file."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _parts_exist(self) -> Any:
        if self.layers is not None and (self.top_layers or 0) > self.layers:
            raise ValueError(
                f"expected model.top_layers <= model.num_layers={self.layers}, got"
                f" {self.top_layers}"
            )
        if self.narrowest is not None and (excess := _excess(self, self.narrowest)):
            raise ValueError(excess)
        return self


def freeze(model: NluModel, config: EncoderConfig, layers: Iterable[nn.Module]) -> None:
    """Freeze all parameters except those that `config` selects in the top ones of `layers`."""
    from torch import nn

    if config.trained == "all":
        return
    model.requires_grad_(False)
    for head in (model.intent_head, model.tag_head, model.crf):
        head.requires_grad_(True)
    model.provenance += f"; trained: {_words(config)}"
    if config.trained != "biases":
        return
    for layer in top(layers, config):
        for module in layer.modules():
            for name, parameter in module.named_parameters(recurse=False):
                # A norm's scale is of the size of a bias.
                if name == "bias" or isinstance(module, nn.LayerNorm):
                    parameter.requires_grad_(True)


def require_rank(config: EncoderConfig, *, most: int) -> None:
    """Check that adapters fit into an encoder whose narrowest adapted map has width `most`.

    Raises: InvalidInput where they are wider.
    """
    if excess := _excess(config, most):
        raise InvalidInput(excess)


def _excess(config: EncoderConfig, most: int) -> str:
    """What is wrong with the rank of the adapters; empty where nothing is."""
    if config.trained != "lora" or config.lora_rank <= most:
        return ""
    return (
        f"expected 1 <= model.lora_rank <= {most}, the width of the encoder, got {config.lora_rank}"
    )


def top(layers: Iterable[nn.Module], config: EncoderConfig) -> list[nn.Module]:
    """The top layers that `config` selects."""
    every = list(layers)
    return every[-(config.top_layers or len(every)) :]


def _words(config: EncoderConfig) -> str:
    which = {"heads": "heads", "biases": "heads, biases and norms"}
    found = which.get(config.trained, "heads and adapters")
    if config.trained == "heads" or config.top_layers is None:
        return found
    return f"{found} of the top {config.top_layers} layers"
