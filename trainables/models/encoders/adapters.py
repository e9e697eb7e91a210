"""Low-rank adapters (Hu et al. 2022) on frozen maps, as layers with book-keeping.

Foreign models read padded records. A sum over padding, though of zeros, is rounded in
another order than one without, and bfloat16 makes visible what float32 rounds: padded
to the longest record of its batch, one record's length moved the clipped sum of the
others by 0.1 C. So records are padded to a length that is a function of their own, and
read with others of it.

The frozen map is plain; only the two thin matrices are trained, so their norms are
exact and cheap.

Frozen models of `transformers` never enter train mode. Their dropout draws one mask for
a padded batch from one generator, and some skip whole layers at random, once a batch:
an added record would change the masks of all others, and the sum by more than the
clipping bound.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables.dp.layers import bookkeeping
from trainables.dp.layers.linear import Linear
from trainables.dp.layers.packing import Rows
from trainables.dp.layers.precision import as_operand
from trainables.errors import InvalidInput


class Adapted(nn.Module):
    """x -> W x + (alpha / rank) up(down(x)), with W frozen and the thin matrices `down`
    [rank, width] and `up` [out, rank] trained (Hu et al. 2022). `up` starts at 0, so
    the map is unchanged before the first step.

    Raises: InvalidInput where the rank is above the width or the outputs of W.
    """

    def __init__(self, base: nn.Linear, *, rank: int, alpha: float) -> None:
        super().__init__()
        width, out = base.in_features, base.out_features
        if rank > min(width, out):
            raise InvalidInput(
                f"expected 1 <= synthesis.lora_rank <= {min(width, out)}, got {rank}"
            )
        self.scale = alpha / rank
        self.down = Linear(width, rank, bias=False)
        self.up = Linear(rank, out, bias=False)
        nn.init.normal_(self.down.weight, std=width**-0.5)
        nn.init.zeros_(self.up.weight)
        self.base = base

    def merged(self) -> Tensor:
        """[out, width]: the weight of one map that computes the same."""
        return self.base.weight + self.scale * self.up.weight @ self.down.weight

    def forward(self, x: Tensor, rows: Rows) -> Tensor:
        """Rows [n, width] -> [n, out]."""
        out: Tensor = self.base(x, rows) + self.scale * self.up(
            self.down(x, rows), rows
        )
        return out


_CLASS = 8  # padded lengths are multiples of it


class AdaptedForeign(Adapted):
    """The same around a linear map of `transformers`, on [B, T, width].

    Where the model runs on a batch, `rows` names the record of each of its tokens,
    `places` are those tokens' rows among `cells` = B * T, and padding gets no adapter.
    """

    rows: Rows | None = None
    places: Tensor | None = None
    cells = 0

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]  # called by foreign code
        """[B, T, width] -> [B, T, out]."""
        out: Tensor = self.base(x)
        flat = x.reshape(-1, x.shape[-1])
        if self.rows is None or self.places is None:
            rows = Rows(np.arange(len(flat)), len(flat))
            added: Tensor = self.up(self.down(flat, rows), rows)
        elif self.cells != len(flat):
            raise InvalidInput(
                "expected model.encoder to be a model whose linear maps read every"
                f" token of a batch, got {len(flat)} rows for {self.cells} tokens"
            )
        else:
            read = flat.index_select(0, self.places)
            own = self.up(self.down(read, self.rows), self.rows)
            padded = own.new_zeros(len(flat), own.shape[1])
            added = padded.index_copy(0, self.places, own)
        return out + self.scale * added.view(out.shape)


class Stored(nn.Linear):
    """A frozen map with weights in bfloat16, which are widened, a map at a time, where
    products are not rounded.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] -> [..., out]."""
        x = as_operand(x)
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype), bias)


class Foreign(nn.Module):
    """A model around `inner`, one of `transformers`, which is frozen but for the
    adapters on its linear maps. `hold` sets `inner`, `put_adapters` adds the adapters,
    and `states_of` reads records padded to a length of their own. Its state holds
    trained weights alone.
    """

    inner: nn.Module

    def hold(self, inner: nn.Module, *, in_bf16: bool = False) -> None:
        """Set `inner`; `in_bf16` stores its linear maps in half of the memory."""
        self.inner = inner.eval()
        for module in inner.modules():
            if in_bf16 and type(module) is nn.Linear:
                module.to(torch.bfloat16).__class__ = Stored
        # A state has the trained weights only: frozen ones are at their source, tied
        # ones are one.
        self.register_state_dict_post_hook(_only_trained)  # type: ignore[no-untyped-call]  # torch's
        self.register_load_state_dict_pre_hook(_add_frozen)  # type: ignore[no-untyped-call]  # torch's

    def train(self, mode: bool = True) -> Self:
        """Without dropout of `inner` in either mode (see the module)."""
        super().train(mode)
        self.inner.eval()
        return self

    def name_rows(self, rows: Rows | None, is_read: Tensor | None = None) -> None:
        """The record of each token of the next pass, in order, where `is_read` (bool
        [B, T], True but for padding) says that there is one; None where nothing is
        recorded.
        """
        places, cells = None, 0
        if is_read is not None:
            places, cells = is_read.flatten().nonzero().squeeze(1), is_read.numel()
        for module in self.modules():
            if isinstance(module, AdaptedForeign):
                module.rows, module.places, module.cells = rows, places, cells

    def states_of(
        self,
        rows: Sequence[Tensor],
        records: NDArray[np.int64],
        num_records: int,
        *,
        padding: int,
        most: int | None,
        read: Callable[[Tensor, Tensor], Tensor],
    ) -> Tensor:
        """[n, width]: the states of all tokens of `rows`, one row after another.

        `records` int64[len(rows)] is the record of each, and `most` the longest row
        that `inner` reads. `read` gives [B, T, width] for ids [B, T], filled up with
        `padding`, and a mask.
        """
        sizes = np.array([len(row) for row in rows])
        padded = -(-sizes // _CLASS) * _CLASS
        if most is not None:
            padded = np.maximum(np.minimum(padded, most), sizes)
        # Apart from those that fill it: without any padding, a model may take another
        # way.
        kinds = 2 * padded + (sizes == padded)
        found, order = [], []
        for kind in np.unique(kinds).tolist():
            length, places = kind // 2, np.flatnonzero(kinds == kind)
            ids = rows[0].new_full((len(places), length), padding)
            for line, place in zip(ids, places.tolist(), strict=True):
                line[: sizes[place]] = rows[place]
            own = torch.from_numpy(sizes[places]).to(ids.device)
            is_read = torch.arange(length, device=ids.device) < own.unsqueeze(1)
            self.name_rows(
                Rows(np.repeat(records[places], sizes[places]), num_records), is_read
            )
            found.append(read(ids, is_read.long())[is_read])
            order.append(np.repeat(places, sizes[places]))
        back = np.argsort(np.concatenate(order), kind="stable")
        states = torch.cat(found)
        return states.index_select(0, torch.from_numpy(back).to(states.device))

    def linear_maps(self) -> dict[str, nn.Linear]:
        """Those of `inner`, by their names."""
        named = self.inner.named_modules()
        return {name: module for name, module in named if isinstance(module, nn.Linear)}

    def put_adapters(
        self, maps: Mapping[str, nn.Linear], *, rank: int, alpha: float
    ) -> None:
        """Freeze all of `inner` and add adapters to these of its maps, by their
        names.
        """
        self.inner.requires_grad_(False)
        for name, child in maps.items():
            parent, _, own = name.rpartition(".")
            adapted = AdaptedForeign(child, rank=rank, alpha=alpha)
            setattr(self.inner.get_submodule(parent), own, adapted)


def refuse_unknown_rows(model: Any, batches: Sequence[Any], *, name: str) -> None:
    """Refuse a model in which a record's gradient by the adapters is not that of the
    record alone: its maps read tokens in another order than record after record, or
    records mix.

    `batches` are one of several records, and each of these alone. Raises: InvalidInput.
    """
    together, *alone = (_norms(model, batch) for batch in batches)
    if not torch.allclose(together, torch.cat(alone), rtol=1e-2):
        raise InvalidInput(
            "expected model.encoder to be a model whose linear maps read the tokens of"
            f" one record after another, got {name}: per-record norms would be wrong"
        )


@torch.enable_grad()
def _norms(model: Any, batch: Any) -> Tensor:
    """[B]: the norms of the gradients of records by the adapters, as the books find
    them.
    """
    number = len(batch.lengths)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    like = next(iter(trained.values()))
    # Of heads as good as nothing is counted.
    scale = [1.0 if name.startswith("inner.") else 1e12 for name in trained]
    return bookkeeping.clipped_sum(
        model,
        batch,
        unit_of_record=torch.arange(number),
        num_units=number,
        weight_of_record=torch.ones(number, device=like.device),
        max_grad_norm=1.0,
        group_scale=torch.tensor(scale, dtype=torch.float64),
        out=torch.zeros(sum(p.numel() for p in trained.values()), device=like.device),
    )


def _only_trained(
    module: nn.Module, state: dict[str, Tensor], prefix: str, local: object
) -> None:
    kept = {prefix + name for name, p in module.named_parameters() if p.requires_grad}
    for name in [n for n in state if n.startswith(prefix) and n not in kept]:
        del state[name]


def _add_frozen(
    module: nn.Module, state: dict[str, Tensor], prefix: str, *others: object
) -> None:
    for name, parameter in module.named_parameters(remove_duplicate=False):
        state.setdefault(prefix + name, parameter.detach())
    for place, part in module.named_modules():
        for name, buffer in part.named_buffers(recurse=False):
            if name not in part._non_persistent_buffers_set:
                state.setdefault(f"{prefix}{place}.{name}", buffer)


MaybeAdapted = Linear | Adapted
