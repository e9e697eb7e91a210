"""Any causal LM of `transformers` with low-rank adapters of this project.

The frozen weights run in the library's modules; the adapters support book-keeping, so norms by
record are exact. Without adapters every unit takes a separate backward pass, exact and slow.

Foreign modules never enter train mode. Their dropout draws one mask for a padded batch from one
generator, and some skip whole layers by one coin a batch. An added record would change the masks of
all others, and the sum by more than the clipping bound.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.data.texts import TextBatch
from trainables.errors import InvalidInput
from trainables.layers import bookkeeping
from trainables.layers.packing import Rows, padded
from trainables.models._causal_lm import LmModule
from trainables.models._lora import AdaptedForeign

_SHORT = 5  # tokens of the record whose losses are compared


class HubLm(LmModule):
    """`inner` is a `transformers` model; records are padded at their end, where nothing attends."""

    def __init__(self, inner: nn.Module, *, provenance: str) -> None:
        super().__init__()
        self.inner = inner.eval()
        self.provenance = provenance
        self.vocabulary = int(inner.config.vocab_size)  # type: ignore[union-attr,arg-type]  # theirs
        # A state has the trained weights only: frozen ones are at their source, tied ones are one.
        self.register_state_dict_post_hook(_only_trained)  # type: ignore[no-untyped-call]  # torch's
        self.register_load_state_dict_pre_hook(_add_frozen)  # type: ignore[no-untyped-call]  # torch's

    def train(self, mode: bool = True) -> Self:
        """Without dropout in either mode (see the module)."""
        super().train(mode)
        self.inner.eval()
        return self

    def token_losses(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """As `LmModule.token_losses`."""
        layout = padded(batch.lengths)
        number, longest = layout.num_records, layout.longest
        ids = batch.inputs.new_zeros(number * longest).index_copy(0, layout.cell, batch.inputs)
        there = torch.zeros_like(ids).index_fill(0, layout.cell, 1)
        self._name_rows(Rows(np.repeat(np.arange(number), longest), number))
        hidden = self._states(ids.view(number, longest), there.view(number, longest))
        counted = batch.counted.nonzero().squeeze(1)
        rows = hidden.flatten(0, 1).index_select(0, layout.cell.index_select(0, counted))
        logits = self.inner.get_output_embeddings()(rows)  # type: ignore[operator]  # theirs
        values = F.cross_entropy(logits, batch.targets.index_select(0, counted), reduction="none")
        return layout.record.index_select(0, counted), values

    def _states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Top layer's states [B, T, D]."""
        base: Any = self.inner.base_model
        found: Tensor = base(input_ids=ids, attention_mask=mask, use_cache=False)[0]
        return found

    def _name_rows(self, rows: Rows | None) -> None:
        for module in self.modules():
            if isinstance(module, AdaptedForeign):
                module.rows = rows

    def adapt(self, *, rank: int, alpha: float) -> None:
        """Freeze everything and add adapters to every linear map but the output's."""
        self.inner.requires_grad_(False)
        output = self.inner.get_output_embeddings()  # type: ignore[operator]  # theirs
        found = [
            (parent, name, child)
            for parent in list(self.inner.modules())
            for name, child in list(parent.named_children())
            if isinstance(child, nn.Linear) and child is not output
        ]
        if not found:
            raise InvalidInput("expected a model with linear maps to adapt, got none")
        for parent, name, child in found:
            setattr(parent, name, AdaptedForeign(child, rank=rank, alpha=alpha))
        if next(self.parameters()).device.type != "meta":  # which has shapes alone
            _refuse_unknown_rows(self)

    def begin(self, num_rows: int, max_tokens: int) -> HubContinuation:
        """A decoding of `num_rows` texts at once."""
        self._name_rows(None)
        return HubContinuation(self)


def _refuse_unknown_rows(model: HubLm) -> None:
    """Refuse a model whose linear maps read tokens in another order than record after record: the
    norms of records, which the adapters' books find, would be those of others.

    Raises: InvalidInput.
    """
    lengths = [2, 5, 3]
    tokens = torch.randint(
        model.vocabulary, (sum(lengths),), generator=torch.Generator().manual_seed(0)
    )
    together = _norms(model, tokens, lengths)
    alone = [_norms(model, own, [len(own)]) for own in torch.split(tokens, lengths)]
    if not torch.allclose(together, torch.cat(alone), rtol=1e-2):
        raise InvalidInput(
            "expected model.encoder to be a model whose linear maps read the tokens of one record"
            f" after another, got {model.provenance}: per-record norms would be wrong"
        )


@torch.enable_grad()
def _norms(model: HubLm, tokens: Tensor, lengths: list[int]) -> Tensor:
    """[B]: the norms of the gradients of records of these tokens and lengths, by the books."""
    number, trained = len(lengths), [p for p in model.parameters() if p.requires_grad]
    rows = tokens.to(trained[0].device)
    there = torch.ones_like(rows, dtype=torch.bool)
    batch = TextBatch(rows, rows, there, torch.tensor(lengths).to(rows.device), rows[:number])
    return bookkeeping.clipped_sum(
        model,
        batch,
        unit_of_record=torch.arange(number),
        num_units=number,
        weight_of_record=torch.ones(number, device=rows.device),
        max_grad_norm=1.0,
        group_scale=torch.ones(len(trained)),
        out=torch.zeros(sum(p.numel() for p in trained), device=rows.device),
    )


def refuse_mixing_records(model: HubLm, *, longest: int, name: str) -> None:
    """Refuse a model in which a record's losses change when another of `longest` tokens is added.

    Causes are positions scaled by the longest record of a batch, and statistics of a batch.

    Raises: InvalidInput naming the encoder `name`.
    """
    short = min(_SHORT, longest)
    if not _first_losses_agree(model, [short], [short, longest]):
        raise InvalidInput(
            "expected model.encoder to be a model that processes each record independently, got"
            f" {name!r}: a record's loss changes with the record beside it, so clipping"
            " bounds nothing"
        )


def refuse_reading_ahead(model: HubLm, *, longest: int, name: str) -> None:
    """Refuse a model whose losses of a record's first tokens change with those behind them, as a
    masked language model's do: it would learn to copy, and draw nothing of use.

    Raises: InvalidInput naming the encoder `name`.
    """
    if not _first_losses_agree(model, [min(_SHORT, longest)], [longest]):
        raise InvalidInput(
            f"expected model.encoder to be a causal LM, got {name!r}: a token's loss changes with"
            " the tokens behind it"
        )


@torch.no_grad()
def _first_losses_agree(model: HubLm, *batches: list[int]) -> bool:
    """Whether batches of records of these lengths, cut from the same tokens, have the same losses
    of the first tokens."""
    most = max(map(sum, batches))
    tokens = torch.randint(model.vocabulary, (most,), generator=torch.Generator().manual_seed(0))
    tokens = tokens.to(next(model.parameters()).device)
    found = []
    for lengths in batches:
        rows = tokens[: sum(lengths)]
        sizes = torch.tensor(lengths, device=rows.device)
        there = torch.ones_like(rows, dtype=torch.bool)
        batch = TextBatch(rows, rows, there, sizes, torch.arange(len(lengths), device=rows.device))
        found.append(model.token_losses(batch)[1].double())
    short = min(_SHORT, *map(len, found))
    return torch.allclose(found[0][:short], found[1][:short], rtol=1e-3, atol=1e-3)


def _only_trained(module: nn.Module, state: dict[str, Tensor], prefix: str, local: object) -> None:
    kept = {prefix + name for name, p in module.named_parameters() if p.requires_grad}
    for name in [n for n in state if n.startswith(prefix) and n not in kept]:
        del state[name]


def _add_frozen(module: nn.Module, state: dict[str, Tensor], prefix: str, *others: object) -> None:
    for name, parameter in module.named_parameters(remove_duplicate=False):
        state.setdefault(prefix + name, parameter.detach())
    for place, part in module.named_modules():
        for name, buffer in part.named_buffers(recurse=False):
            if name not in part._non_persistent_buffers_set:
                state.setdefault(f"{prefix}{place}.{name}", buffer)


class HubContinuation:
    """Texts that grow by one token at a time, over the model's own cache."""

    def __init__(self, model: HubLm) -> None:
        from transformers import DynamicCache

        self._inner: Any = model.inner
        self._cache = DynamicCache()

    @torch.no_grad()
    def read(self, tokens: Tensor) -> Tensor:
        """The next token of each text, int64[R] -> scores of the one after it [R, vocabulary]."""
        found = self._inner(
            input_ids=tokens.unsqueeze(1).to(self._inner.device),
            past_key_values=self._cache,
            use_cache=True,
        )
        scores: Tensor = found.logits[:, -1]
        return scores

    def keep(self, rows: Tensor) -> None:
        """Select these rows, in this order."""
        self._cache.reorder_cache(rows.to(self._inner.device))
