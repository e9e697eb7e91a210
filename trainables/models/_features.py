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
from trainables.encoders.names import tag_names
from trainables.encoders.recipe import SHRINKAGE, Recipe, make_recipe
from trainables.encoders.rows import Moments
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
        if found.moments is None:
            raise InvalidData(f"expected the moments of an encoder in {found.place}, got none")
        self.own = self._own_recipe(config, found.layers, found.moments)
        self.names = found.names if config.prior == "names" else None
        if config.prior == "names" and found.names is None:
            raise InvalidInput(
                f"expected model.prior=none with model.encoder={config.encoder}: it has learnt no"
                " names"
            )
        # What names score are rows of the default recipe: mostly those that the heads read anyway.
        is_default = self.own.layers == found.layers and (
            (config.whitening, config.components, config.neighbors) == (SHRINKAGE, None, False)
        )
        self.reads_names = self.own
        if self.names is not None and not is_default:
            self.reads_names = make_recipe(self.encoder, found.layers, found.moments)
        self.recipe = {
            "encoder": found.digest,
            **config.model_dump(
                mode="json",
                include={"layers", "neighbors", "whitening", "components", "bias", "prior"},
            ),
        }
        self.bias = config.bias
        self.token_width, self.record_width = (width + 1 for width in self.own.widths)

    def _own_recipe(
        self, config: Config, there: tuple[int, ...], moments: tuple[Moments, Moments]
    ) -> Recipe:
        """Raises: InvalidInput for a layer or components that the encoder lacks."""
        layers = config.layers or there
        if not set(layers) <= set(there):
            raise InvalidInput(
                f"expected model.layers among {list(there)} with model.encoder={config.encoder},"
                f" got {list(layers)}"
            )
        places = [there.index(layer) for layer in layers]
        size = min(sum(each.widths[place] for place in places) for each in moments)
        whitens = config.whitening is not None
        if whitens and config.components is not None and config.components > size:
            raise InvalidInput(f"expected model.components <= {size}, got {config.components}")
        return make_recipe(
            self.encoder,
            there,
            moments,
            layers=layers,
            shrinkage=config.whitening,
            components=config.components,
            neighbors=config.neighbors,
        )

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
        """`tokens` [T, token_width] and `records` [B, record_width] of a batch of the encoder, the
        constant entry last; with names what they are scored by, `token_names` [T, 3 + N] and
        `record_names` [B, N]."""
        states = self.encoder.layer_states(batch)
        own = self.own.of_states(states, batch)
        found = {
            "tokens": F.pad(own.tokens, (0, 1), value=self.bias),
            "records": F.pad(own.records, (0, 1), value=self.bias),
        }
        if self.names is not None:
            is_read = self.reads_names is self.own
            read = own if is_read else self.reads_names.of_states(states, batch)
            found["token_names"] = self.names.of_tokens(read.tokens)
            found["record_names"] = self.names.of_records(read.records)
        return found

    def name_vectors(self, schema: LabelSchema) -> tuple[Tensor, Tensor] | None:
        """[intents, N] and [tags, 3 + N] by which rows of names become scores; None without."""
        if self.names is None:
            return None
        intents = self.names.vectors(self.reads_names.of_names(schema.intents))
        if not schema.slots:
            return intents, tag_names(schema, intents[:0])
        slots = self.names.vectors(self.reads_names.of_names(schema.slots))
        return intents, tag_names(schema, slots)


@dataclass(frozen=True, eq=False)
class FixedTable:
    """Computes the rows of a batch anew; `encoders.cache` keeps those of a corpus."""

    fixed: FixedEncoder
    table: FeatureTable

    def collate(self, token_ids: np.ndarray, lengths: np.ndarray) -> dict[str, Tensor]:
        """See `data.batches.FeatureTable`."""
        sizes = torch.from_numpy(np.asarray(lengths, dtype=np.int64))
        return self.fixed.rows(
            PackedBatch.unlabelled(self.table.collate(token_ids, lengths), sizes)
        )


class Features(NluModel):
    """See `features`. Packed inputs: `tokens` [T, D + 1] and `records` [B, E + 1], of norm 1 but
    for the constant last entry."""

    parts: Tensor
    intent_names: Tensor | None
    tag_names: Tensor | None

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
        self.tag_weight = config.tag_weight
        self.provenance = fixed.provenance
        parts = tag_parts(schema, factored=config.tag_head == "factored")
        self.register_buffer("parts", torch.from_numpy(parts), persistent=False)
        of_intents, of_tags = fixed.name_vectors(schema) or (None, None)
        self.register_buffer("intent_names", of_intents, persistent=False)
        self.register_buffer("tag_names", of_tags, persistent=False)
        self.intent_head = Linear(fixed.record_width, len(schema.intents), bias=False)
        self.tag_head = Linear(fixed.token_width, parts.shape[1], bias=False)
        for head in (self.intent_head, self.tag_head):
            torch.nn.init.zeros_(head.weight)
        self._forbid_broken_spans(schema)

    @property
    def knows_names(self) -> bool:
        """Whether it says something of a record before the first step."""
        return self.tag_names is not None

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
        """The rows of a batch; behind each what the names score it."""
        layout = time_major(batch.lengths)
        of_tokens, of_records = self._of_names(batch)
        return Encoded(
            torch.cat([batch.inputs["tokens"].float(), of_tokens], 1).index_select(
                0, layout.source
            ),
            torch.cat([batch.inputs["records"].float(), of_records], 1),
            layout,
        )

    def _of_names(self, batch: PackedBatch) -> tuple[Tensor, Tensor]:
        """Scores by the names: [T, tags] and [B, intents]; of width 0 without names."""
        if self.tag_names is None or self.intent_names is None:
            tokens, records = batch.inputs["tokens"], batch.inputs["records"]
            return tokens.new_zeros(len(tokens), 0), records.new_zeros(len(records), 0)
        return (
            batch.inputs["token_names"].float() @ self.tag_names.t(),
            batch.inputs["record_names"].float() @ self.intent_names.t(),
        )

    def layer_states(self, batch: PackedBatch) -> LayerStates:
        """The rows are the only layer."""
        return LayerStates((batch.inputs["tokens"],), (batch.inputs["records"],))

    def losses(self, batch: PackedBatch) -> Tensor:
        """[B]: cross-entropy of the intent plus `tag_weight` times the sum of the tokens' own, in
        nats.

        Unlike the models with learnt transitions, tokens are trained one by one.
        """
        record = np.repeat(np.arange(batch.num_records), batch.lengths.cpu().numpy())
        of_tokens, of_records = self._of_names(batch)
        rows = Rows(record, batch.num_records)
        tags = self._tag_logits(batch.inputs["tokens"].float(), of_tokens, rows)
        intents = self._intent_logits(batch.inputs["records"].float(), of_records)
        each = F.cross_entropy(tags, batch.tags.clamp(min=0), reduction="none")
        each = each.masked_fill(batch.tags < 0, 0.0)
        of = torch.from_numpy(record).to(each.device)
        summed = each.new_zeros(batch.num_records).index_add(0, of, each)
        return self._intent_losses(intents, batch, 0.0) + self.tag_weight * summed

    def _heads(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        widths = self.fixed.record_width, self.fixed.token_width
        records, of_records = encoded.sentence.tensor_split([widths[0]], dim=1)
        tokens, of_tokens = encoded.tokens.tensor_split([widths[1]], dim=1)
        return (
            self._intent_logits(records, of_records),
            self._tag_logits(tokens, of_tokens, encoded.layout.rows),
        )

    def _intent_logits(self, records: Tensor, start: Tensor) -> Tensor:
        scores: Tensor = self.intent_head(records, one_row_each(records.shape[0]))
        return scores + start if start.shape[1] else scores

    def _tag_logits(self, tokens: Tensor, start: Tensor, rows: Rows) -> Tensor:
        found: Tensor = self.tag_head(tokens, rows)
        scores = found @ self.parts.t()
        return scores + start if start.shape[1] else scores

    def _forbid_broken_spans(self, schema: LabelSchema) -> None:
        """Transitions that BIO does not allow cost so much that no path takes one."""
        start, transitions = bio_scores(schema)
        with torch.no_grad():
            self.crf.transitions.copy_(torch.from_numpy(transitions))
            self.crf.start.copy_(torch.from_numpy(start))
            self.crf.end.zero_()
        self.crf.requires_grad_(False)
