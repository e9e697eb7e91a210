"""The module of `features`: heads over rows that a fixed encoder gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainables import catalogue
from trainables.config import model_part
from trainables.data.batches import FeatureTable, Loader, PackedBatch
from trainables.data.records import LabelSchema
from trainables.encoders import cache, folder
from trainables.encoders.rows import Whitening, features, joined, whitening, with_neighbors
from trainables.encoders.tags import bio_scores, tag_parts
from trainables.errors import InvalidData, InvalidInput
from trainables.layers.linear import Linear
from trainables.layers.packing import Rows, one_row_each, time_major
from trainables.models._nlu import Encoded, LayerStates, NluModel

if TYPE_CHECKING:
    from pathlib import Path

    from trainables.data.corpus import Corpus
    from trainables.models.features import Config

_NONE = LabelSchema(intents=("none",), slots=(), source="none")  # an encoder's own heads


class FixedEncoder:
    """An encoder from its folder, and how its states become rows. No module: nothing trains it."""

    def __init__(self, config: Config) -> None:
        found = folder.read(config.encoder)
        fields = model_part(**found.model)
        build = catalogue.entry("models", fields.name, kind="frames").build
        self.encoder: NluModel = build(fields, schema=_NONE, seed=0)
        missing, unknown = self.encoder.load_state_dict(found.weights or {}, strict=False)
        of_heads = ("intent_head.", "tag_head.", "crf.")
        lacking = [name for name in missing if not name.startswith(of_heads)]
        if found.weights is not None and (unknown or lacking):
            raise InvalidData(f"expected weights in {found.place} that fit its encoder.json")
        self.encoder.eval().requires_grad_(False)
        self.place = found.place
        self.card = found.card
        self.neighbors = config.neighbors
        if found.moments is None:
            raise InvalidData(f"expected the moments of an encoder in {found.place}, got none")
        tokens, records = found.moments
        count = len(tokens.widths)
        self.layers = config.layers or tuple(range(count))
        if any(not 0 <= layer < count for layer in self.layers):
            raise InvalidInput(
                f"expected model.layers from 0 to {count - 1} with model.encoder="
                f"{config.encoder}, got {list(self.layers)}"
            )
        chosen = [each.of(self.layers) for each in (tokens, records)]
        self.white: list[Whitening | None] = [None, None]
        if config.whitening is not None:
            size = min(len(each.mean) for each in chosen)
            if config.components is not None and config.components > size:
                raise InvalidInput(f"expected model.components <= {size}, got {config.components}")
            self.white = [
                whitening(each, shrinkage=config.whitening, components=config.components)
                for each in chosen
            ]
        sizes = [config.components or len(each.mean) for each in chosen]
        self.recipe = {
            "encoder": found.digest,
            **config.model_dump(
                mode="json", include={"layers", "neighbors", "whitening", "components"}
            ),
        }
        self.token_width = sizes[0] * (3 if config.neighbors else 1)
        self.record_width = sizes[1]

    @property
    def provenance(self) -> str:
        """What is public in it: its name, where it started, which corpora it learnt from."""
        corpora = ", ".join(str(each["name"]) for each in self.card["corpora"])
        return (
            f"features of the public encoder {self.card.get('name', self.place.name)}, pretrained"
            f" on {corpora} ({self.card.get('starts_from', 'unknown start')})"
        )

    @torch.no_grad()
    def rows(self, batch: PackedBatch) -> dict[str, Tensor]:
        """`tokens` [T, token_width] and `records` [B, record_width] of a batch of the encoder."""
        states: LayerStates = self.encoder.layer_states(batch)
        tokens = features(joined([states.tokens[k] for k in self.layers]), self.white[0])
        if self.neighbors:
            tokens = with_neighbors(tokens, batch.lengths)
        records = features(joined([states.records[k] for k in self.layers]), self.white[1])
        return {"tokens": tokens, "records": records}


@dataclass(frozen=True, eq=False)
class FixedTable:
    """Computes the rows of a batch anew; `encoders.cache` keeps those of a corpus."""

    fixed: FixedEncoder
    table: FeatureTable

    def collate(self, token_ids: np.ndarray, lengths: np.ndarray) -> dict[str, Tensor]:
        """See `data.batches.FeatureTable`."""
        sizes = torch.from_numpy(np.asarray(lengths, dtype=np.int64))
        nothing = torch.zeros(len(sizes), dtype=torch.int64)
        batch = PackedBatch(
            inputs=self.table.collate(token_ids, lengths),
            lengths=sizes,
            intents=nothing,
            tags=torch.zeros(len(token_ids), dtype=torch.int64),
            text_keys=nothing,
        )
        return self.fixed.rows(batch)


class Features(NluModel):
    """See `features`. Packed inputs: `tokens` [T, D] and `records` [B, E] of norm 1."""

    parts: Tensor

    def __init__(self, config: Config, schema: LabelSchema) -> None:
        fixed = FixedEncoder(config)
        super().__init__(
            num_intents=len(schema.intents),
            num_tags=len(schema.tags),
            token_width=fixed.token_width,
            dropout=0.0,
            seed=0,
        )
        self.fixed = fixed
        self.bias = config.bias
        self.tag_weight = config.tag_weight
        self.provenance = fixed.provenance
        parts = tag_parts(schema, factored=config.tag_head == "factored")
        self.register_buffer("parts", torch.from_numpy(parts), persistent=False)
        self.intent_head = Linear(fixed.record_width + 1, len(schema.intents), bias=False)
        self.tag_head = Linear(fixed.token_width + 1, parts.shape[1], bias=False)
        for head in (self.intent_head, self.tag_head):
            torch.nn.init.zeros_(head.weight)
        self._forbid_broken_spans(schema)

    def feature_table(self, types: Sequence[str]) -> FixedTable:
        """Rows computed at every use."""
        return FixedTable(self.fixed, self.fixed.encoder.feature_table(types))

    def loader(self, corpus: Corpus, *, cache_dir: Path) -> Loader:
        """Rows that were computed once for this corpus, encoder and recipe."""
        encoder = self.fixed.encoder
        rows = cache.rows_of(
            corpus,
            Loader(corpus, encoder.feature_table(corpus.types)),
            self.fixed.rows,
            recipe=self.fixed.recipe,
            cache_dir=cache_dir,
        )
        return Loader(corpus, cache.CachedTable(rows, corpus.offsets))

    def encode(self, batch: PackedBatch) -> Encoded:
        """The rows of a batch."""
        layout = time_major(batch.lengths)
        tokens = batch.inputs["tokens"].float().index_select(0, layout.source)
        return Encoded(tokens, batch.inputs["records"].float(), layout)

    def layer_states(self, batch: PackedBatch) -> LayerStates:
        """The rows are the only layer."""
        return LayerStates((batch.inputs["tokens"],), (batch.inputs["records"],))

    def losses(self, batch: PackedBatch) -> Tensor:
        """[B]: cross-entropy of the intent plus `tag_weight` times the sum of the tokens' own, in
        nats.

        Unlike the models with learnt transitions, tokens are trained one by one.
        """
        record = np.repeat(np.arange(batch.num_records), batch.lengths.cpu().numpy())
        tags = self._tag_logits(batch.inputs["tokens"].float(), Rows(record, batch.num_records))
        intents = self._intent_logits(batch.inputs["records"].float())
        each = F.cross_entropy(tags, batch.tags.clamp(min=0), reduction="none")
        each = each.masked_fill(batch.tags < 0, 0.0)
        of = torch.from_numpy(record).to(each.device)
        summed = each.new_zeros(batch.num_records).index_add(0, of, each)
        return self._intent_losses(intents, batch, 0.0) + self.tag_weight * summed

    def _heads(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        return (
            self._intent_logits(encoded.sentence),
            self._tag_logits(encoded.tokens, encoded.layout.rows),
        )

    def _intent_logits(self, rows: Tensor) -> Tensor:
        logits: Tensor = self.intent_head(self._with_bias(rows), one_row_each(rows.shape[0]))
        return logits

    def _tag_logits(self, tokens: Tensor, rows: Rows) -> Tensor:
        scores: Tensor = self.tag_head(self._with_bias(tokens), rows)
        return scores @ self.parts.t()

    def _with_bias(self, rows: Tensor) -> Tensor:
        return F.pad(rows, (0, 1), value=self.bias)

    def _forbid_broken_spans(self, schema: LabelSchema) -> None:
        """Transitions that BIO does not allow cost so much that no path takes one."""
        start, transitions = bio_scores(schema)
        with torch.no_grad():
            self.crf.transitions.copy_(torch.from_numpy(transitions))
            self.crf.start.copy_(torch.from_numpy(start))
            self.crf.end.zero_()
        self.crf.requires_grad_(False)
