"""K models of one architecture as one: their own code over stacked layers in place of theirs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from trainables.errors import InvalidInput
from trainables.layers.char_cnn import CharCnn
from trainables.layers.crf import LinearChainCrf
from trainables.layers.embedding import Embedding
from trainables.layers.layer_norm import LayerNorm
from trainables.layers.linear import Linear
from trainables.layers.lstm import BiLstm
from trainables.layers.stacked.char_cnn import StackedCharCnn
from trainables.layers.stacked.crf import StackedCrf, fits
from trainables.layers.stacked.lstm import StackedBiLstm
from trainables.layers.stacked.rowwise import StackedEmbedding, StackedLayerNorm, StackedLinear
from trainables.layers.tape import Tape, recording

_STACKED: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    BiLstm: StackedBiLstm,
    CharCnn: StackedCharCnn,
    Embedding: StackedEmbedding,
    LayerNorm: StackedLayerNorm,
    LinearChainCrf: StackedCrf,
    Linear: StackedLinear,
}


def stackable(model: nn.Module) -> bool:
    """Whether every parameter is of one layer that has a stacked form, and every CRF `fits`."""
    layers = [module for module in model.modules() if type(module) in _STACKED]
    inside = sum(len(list(layer.parameters(recurse=False))) for layer in layers)
    # A tied parameter is in two layers, but once among those of the model.
    return (
        hasattr(model, "begin_stacked_step")
        and inside == len(list(model.parameters()))
        and not any(True for _ in model.buffers())
        and all(fits(layer) for layer in layers if isinstance(layer, LinearChainCrf))
    )


class Twin:
    """`models` [K] as one. It reads their weights anew in every pass and holds none itself."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        shapes = [{name: (p.shape, p.requires_grad) for name, p in _named(m)} for m in models]
        if any(shape != shapes[0] for shape in shapes):
            raise InvalidInput("expected models of one architecture in a stack, got several")
        self.models = tuple(models)
        self._model: Any = _joined(models)

    @property
    def pointers(self) -> Mapping[str, str]:
        """The inputs of a batch that are indices into the rows of another input."""
        named: Mapping[str, str] = self._model.pointers
        return named

    def losses(self, batch: Any, weights: Tensor, tape: Tape) -> Tensor:
        """[B], detached, after one forward and backward pass that leaves its entries on `tape`.

        `batch` holds the records of each model one after another, `weights` [B] the weight of each
        record's loss.
        """
        self._model.train()
        self._model.begin_stacked_step(self.models)
        with recording(tape):
            losses: Tensor = self._model.losses(batch)
            torch.autograd.backward(losses, weights)
        return losses.detach()


def _named(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return list(model.named_parameters())


def _joined(modules: Sequence[nn.Module]) -> nn.Module:
    """The first module's own code over stacked parts."""
    first = modules[0]
    if type(first) in _STACKED:
        return _STACKED[type(first)](modules)
    joined = copy.copy(first)
    joined._modules = {
        name: None if part is None else _joined([module.get_submodule(name) for module in modules])
        for name, part in first._modules.items()
    }
    return joined
