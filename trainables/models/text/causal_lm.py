"""Causal language models: their interface, and GPT-2's blocks over packed rows."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import torch.nn.functional as F
from torch import Tensor, nn

from trainables.data.texts import TextBatch
from trainables.dp.layers.attention import attention
from trainables.dp.layers.dropout import DropsByRecord, Masks
from trainables.dp.layers.embedding import Embedding
from trainables.dp.layers.layer_norm import LayerNorm
from trainables.dp.layers.linear import Linear
from trainables.dp.layers.packing import ByLength, Rows, by_length
from trainables.dp.seeding import stream_seed, torch_seeded
from trainables.errors import InvalidInput
from trainables.models.configs import CausalLmConfig
from trainables.models.encoders.adapters import Adapted, MaybeAdapted

_SITES = 2  # places of dropout in a block


@dataclass(frozen=True)
class LmSizes:
    """The sizes of a model: ids in the `vocabulary`, width of states, blocks
    (`layers`), attention heads, width of the feed-forward layers (`intermediate`),
    tokens of the longest record (`positions`), and the `eps` of its norms.
    """

    vocabulary: int
    width: int
    layers: int
    heads: int
    intermediate: int
    positions: int
    eps: float = 1e-5


class Block(nn.Module):
    """Attention and feed-forward, each on normed rows and added to them."""

    def __init__(self, sizes: LmSizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.attention_norm = LayerNorm(sizes.width, eps=sizes.eps)
        self.qkv: MaybeAdapted = Linear(sizes.width, 3 * sizes.width)
        self.attention_out: MaybeAdapted = Linear(sizes.width, sizes.width)
        self.norm = LayerNorm(sizes.width, eps=sizes.eps)
        self.inner: MaybeAdapted = Linear(sizes.width, sizes.intermediate)
        self.outer: MaybeAdapted = Linear(sizes.intermediate, sizes.width)

    def forward(
        self, x: Tensor, layout: ByLength, masks: Masks | None, site: int
    ) -> Tensor:
        """Rows [n, width] -> the same."""
        rows = layout.rows
        qkv = self.qkv(self.attention_norm(x, rows), rows)
        seen = self.attention_out(
            attention(qkv, layout, heads=self.heads, causal=True), rows
        )
        x = x + (seen if masks is None else masks.drop(seen, site))
        inner = F.gelu(self.inner(self.norm(x, rows), rows), approximate="tanh")
        fed: Tensor = self.outer(inner, rows)
        return x + (fed if masks is None else masks.drop(fed, site + 1))


class LmModule(nn.Module, ABC):
    """A causal language model as the synthesis task uses it: losses by record for
    training, by token for measuring, adapters, and a generator of `transformers` for
    drawing. `provenance` says in words where its weights start.
    """

    provenance: str

    def losses(self, batch: TextBatch) -> Tensor:
        """[B]: -log p of a record's counted tokens together, in nats.

        A mean over tokens would give a short record's first token more weight than a
        long one's, and drawn texts would be too short.
        """
        record, values = self.token_losses(batch)
        return values.new_zeros(batch.lengths.shape[0]).index_add(0, record, values)

    @abstractmethod
    def token_losses(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """For each counted token, in any order: its record int64[m], and -log p in nats
        [m].
        """

    @abstractmethod
    def generator(self) -> Any:
        """The model as `transformers` has it, to draw from with its `generate`."""

    @abstractmethod
    def adapt(self, *, rank: int, alpha: float) -> None:
        """Freeze everything and add low-rank adapters."""


class CausalLm(DropsByRecord, LmModule):
    """GPT-2's architecture over packed rows (Radford et al. 2019), with layers that
    clip by record; its output scores use the table of words. Weights are drawn from
    `seed`.

    Raises: InvalidInput where the width is no multiple of the heads.
    """

    def __init__(self, sizes: LmSizes, *, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        if sizes.width % sizes.heads:
            raise InvalidInput(
                "expected model.hidden_size to be a multiple of"
                f" model.num_heads={sizes.heads}, got {sizes.width}"
            )
        self.sizes = sizes
        self.dropout = dropout
        self.provenance = "trained from random weights"
        self._seed = seed
        self.word = Embedding(sizes.vocabulary, sizes.width)
        self.position = Embedding(sizes.positions, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = LayerNorm(sizes.width, eps=sizes.eps)
        self.head = Linear(sizes.width, sizes.vocabulary, bias=False)
        with torch_seeded(stream_seed(seed, "model", "causal_lm")):
            self._initialise()
        self.head.weight = self.word.weight
        # The tied weight has one name in a state, so files store it once.
        self.register_state_dict_post_hook(_drop_head)  # type: ignore[no-untyped-call]  # torch's
        self.register_load_state_dict_pre_hook(_add_head)  # type: ignore[no-untyped-call]  # torch's

    @classmethod
    def build(
        cls, config: CausalLmConfig, *, vocabulary: int, positions: int, seed: int
    ) -> Self:
        """A model from scratch (see `ModelConfig.build`)."""
        sizes = LmSizes(
            vocabulary=vocabulary,
            width=config.hidden_size,
            layers=config.num_layers,
            heads=config.num_heads,
            intermediate=config.intermediate_size,
            positions=positions,
        )
        return cls(sizes, dropout=config.dropout, seed=seed)

    def _initialise(self) -> None:
        """GPT-2's: 0.02, and smaller where a block adds to the residual stream."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                adds = name.endswith(("attention_out.weight", "outer.weight"))
                scale = (2 * self.sizes.layers) ** -0.5 if adds else 1.0
                nn.init.normal_(parameter, std=0.02 * scale)

    def token_losses(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """As `LmModule.token_losses`."""
        layout = by_length(batch.lengths)
        rows = layout.rows
        tokens = batch.inputs.index_select(0, layout.source)
        x = self.word(tokens, rows) + self.position(layout.position, rows)
        masks = self.masks(batch, layout)
        for number, block in enumerate(self.blocks):
            x = block(x, layout, masks, number * _SITES)
        hidden = self.norm(x, rows)
        counted = batch.counted.index_select(0, layout.source).nonzero().squeeze(1)
        read = Rows(rows.record[counted.cpu().numpy()], rows.num_records)
        logits = self.head(hidden.index_select(0, counted), read)
        targets = batch.targets.index_select(0, layout.source.index_select(0, counted))
        values = F.cross_entropy(logits, targets, reduction="none")
        return layout.record.index_select(0, counted), values

    def generator(self) -> Any:
        """As `LmModule.generator`."""
        from trainables.models.text.gpt2 import to_transformers

        return to_transformers(self)

    def adapt(self, *, rank: int, alpha: float) -> None:
        """Freeze everything and add low-rank adapters to every linear map of the
        blocks.
        """
        self.requires_grad_(False)
        for block in self.blocks:
            for name in ("qkv", "attention_out", "inner", "outer"):
                setattr(
                    block, name, Adapted(getattr(block, name), rank=rank, alpha=alpha)
                )


def _drop_head(
    module: nn.Module, state: dict[str, Tensor], prefix: str, local: object
) -> None:
    state.pop(f"{prefix}head.weight", None)


def _add_head(
    module: nn.Module, state: dict[str, Tensor], prefix: str, *others: object
) -> None:
    if f"{prefix}word.weight" in state:
        state[f"{prefix}head.weight"] = state[f"{prefix}word.weight"]
