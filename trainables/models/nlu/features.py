"""Linear heads over rows of fixed encoders."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from trainables.data.batches import FeatureTable, Loader, PackedBatch
from trainables.data.corpus import Corpus
from trainables.data.records import LabelSchema
from trainables.dp.layers.factored import FactoredLinear
from trainables.dp.layers.linear import Linear
from trainables.dp.layers.packing import Rows, one_row_each, time_major
from trainables.dp.layers.precision import multiplies_bf16
from trainables.errors import InvalidInput
from trainables.models.configs import NO_NAMES, FeaturesConfig
from trainables.models.encoders import cache
from trainables.models.encoders.hub import public_encoder
from trainables.models.encoders.named_files import files_digest, moments_file
from trainables.models.encoders.rows import SHRINKAGE, Recipe, pack
from trainables.models.encoders.source import HubEncoder
from trainables.models.nlu.base import (
    Encoded,
    NluModel,
    independent_losses,
    label_losses,
)
from trainables.models.nlu.label_names import rows_of_names, scores_in, tag_names

_KEPT_BYTES = 1 << 30  # a repeated batch (full batches) is kept up to this size
# A batch that is too large to be kept is read in parts of this size.
_PASS_BYTES = 1 << 28
# Of the rows of several encoders.
Join = Callable[[Sequence[cache.CachedRows]], dict[str, Tensor]]
_OWN = 0.5  # weight of a tag's separate row relative to those of its type and role
# and of the row of B or of I, which is so common that its steps would be too long
_MARK = 0.5


@lru_cache(maxsize=2)
def _encoder(name: str, digest: str) -> HubEncoder:
    """The encoder of these files, which the models of a process share: nothing changes
    it.
    """
    return HubEncoder(public_encoder(name))


@lru_cache(maxsize=16)  # of the rows and of their neighbours, of each encoder
def _recipe(
    encoder: HubEncoder,
    known: tuple[int, ...],
    layers: tuple[int, ...],
    shrinkage: float,
) -> Recipe:
    """Of `layers` by their part of the moments of the layers `known`. Kept, because
    whitening takes as long as a small model's training.
    """
    return Recipe(encoder, layers, encoder.moments(known), shrinkage)


class FixedEncoder:
    """An encoder from its folder, and the recipe of its rows. No module: it is not
    trained.
    """

    def __init__(self, config: FeaturesConfig, number: int) -> None:
        name = config.encoders[number]
        self.encoder = _encoder(name, files_digest({"encoder": name}))
        public = self.encoder.public
        self._config = config
        config.require_layers(number, public.layers)
        last = public.config.num_layers
        # The middle layer has the most information on words.
        default = (
            public.layers
            if public.about
            else tuple(dict.fromkeys(((last + 1) // 2, last)))
        )
        self.layers = config.layers_of(number) or default
        self.names = scores_in(public.place) if config.has_prior else None
        self.recipe = {
            "encoder": public.digest(),
            "layers": self.layers,
            "names": self.names is not None,
            "whitening": config.whitening,
            "neighbours": config.neighbours,
            "bf16": multiplies_bf16(),
        }
        self.record_width = len(self.layers) * public.config.width
        self.token_width = self.record_width + 2 * public.config.width * bool(
            config.neighbours
        )

    def _of(self, layers: tuple[int, ...]) -> Recipe:
        return _recipe(self.encoder, self.layers, layers, self._config.whitening)

    @cached_property
    def own(self) -> Recipe:
        """The recipe of the rows that the heads read."""
        return self._of(self.layers)

    @cached_property
    def reads_names(self) -> Recipe:
        """The recipe of the rows that names score: that of the default settings, on
        which their scores are learned. Where the heads have these, it is `own`.
        """
        layers = self.encoder.public.layers
        return _recipe(self.encoder, layers, layers, SHRINKAGE)

    @torch.no_grad()
    def rows(self, batch: PackedBatch) -> dict[str, Tensor]:
        """`tokens` [T, token_width] and `records` [B, record_width] of a batch of the
        encoder, of norm 1; with names also the inputs of their scores, `token_names`
        [T, 3 + N] and `record_names` [B, N]. The encoder's products are in bfloat16
        where the processor has instructions for them, in half of the time.
        """
        # The residual stream and the rows stay float32.
        with torch.autocast("cpu", torch.bfloat16, enabled=multiplies_bf16()):
            states = self.encoder.layer_states(batch)
        own = tokens, records = self.own.of_states(states)
        found = {"tokens": tokens, "records": records}
        if self.names is not None:
            is_read = self.reads_names is self.own
            of_tokens, of_records = (
                own if is_read else self.reads_names.of_states(states)
            )
            found["token_names"] = self.names.of_tokens(of_tokens)
            found["record_names"] = self.names.of_records(of_records)
        if weight := self._config.neighbours:
            # Of the lowest layer alone.
            near, _ = self._of((min(self.layers),)).of_states(states)
            found["tokens"] = with_neighbours(
                tokens, near, batch.lengths, weight=weight
            )
        return found

    def name_vectors(self, schema: LabelSchema) -> tuple[Tensor, Tensor] | None:
        """[intents, N] and [tags, 3 + N], which map rows of names to scores; None
        without.
        """
        if self.names is None:
            return None
        intents = self.names.vectors(rows_of_names(self.reads_names, schema.intents))
        slots = intents[:0]
        if schema.slots:
            slots = self.names.vectors(rows_of_names(self.reads_names, schema.slots))
        return intents, tag_names(schema, slots)


def with_neighbours(
    rows: Tensor, near: Tensor, lengths: Tensor, *, weight: float
) -> Tensor:
    """Rows of tokens [T, D], each with the rows `near` [T, E] of the token before and
    of the one behind in its record, times `weight`: [T, D + 2 E], of norm 1 at most.

    `lengths` int64[B]. A token without such a neighbour has zeros there.

    >>> near = torch.tensor([[1.0], [2.0], [3.0]])
    >>> with_neighbours(near, near, torch.tensor([2, 1]), weight=1.0).mul(3**0.5).round().tolist()
    [[1.0, 0.0, 2.0], [2.0, 1.0, 0.0], [3.0, 0.0, 0.0]]
    """
    ends = lengths.cumsum(0)
    before, behind = near.roll(1, 0), near.roll(-1, 0)
    before[ends - lengths] = 0.0
    behind[ends - 1] = 0.0
    joined = torch.cat([rows, weight * before, weight * behind], dim=1)
    scale: float = (1 + 2 * weight**2) ** -0.5
    return joined * scale


@dataclass(frozen=True, eq=False)
class FixedTable:
    """Computes the rows of a batch anew; `encoders.cache` keeps those of a corpus. They
    are rounded alike, so that an exported model predicts what was measured. Each
    encoder has its own pieces of the same tokens.
    """

    fixed: Sequence[FixedEncoder]
    tables: Sequence[FeatureTable]
    join: Join

    def collate(self, token_ids: np.ndarray, lengths: np.ndarray) -> dict[str, Tensor]:
        """See `data.batches.FeatureTable`."""
        sizes = torch.from_numpy(np.asarray(lengths, dtype=np.int64))
        parts = []
        for fixed, table in zip(self.fixed, self.tables, strict=True):
            batch = PackedBatch.unlabelled(table.collate(token_ids, lengths), sizes)
            parts.append(
                {n: rows.half().numpy() for n, rows in fixed.rows(batch).items()}
            )
        return self.join(parts)


@dataclass(frozen=True, eq=False)
class CachedTable:
    """Batches of cached rows of encoders, joined, instead of a model's feature
    table.
    """

    parts: Sequence[cache.CachedRows]
    offsets: cache.Places
    join: Join

    def collate_records(self, records: cache.Places) -> dict[str, Tensor]:
        """All kinds of rows of these records, float32 [T, .] and [B, .], by name."""
        return self.join(
            [
                {
                    name: rows[cache.places_of(name, records, self.offsets)]
                    for name, rows in part.items()
                }
                for part in self.parts
            ]
        )


class Features(NluModel):
    """See `features`. Packed inputs: `tokens` [T, D + 1] and `records` [B, E + 1], of
    norm 1 but for the constant last entry; with names also the scores that they give,
    `tag_start` [T, tags] and `intent_start` [B, intents].
    """

    def __init__(self, config: FeaturesConfig, schema: LabelSchema) -> None:
        fixed = [FixedEncoder(config, number) for number in range(len(config.encoders))]
        self.token_width = 1 + sum(each.token_width for each in fixed)
        self.record_width = 1 + sum(each.record_width for each in fixed)
        super().__init__(schema, token_width=self.token_width)
        self.fixed = fixed
        self.config = config
        self.provenance = "; ".join(each.encoder.provenance for each in fixed)
        parts = tag_parts(schema)
        vectors = [v for each in fixed if (v := each.name_vectors(schema)) is not None]
        if config.has_prior and not vectors:
            raise InvalidInput(NO_NAMES.format(", ".join(config.encoders)))
        # Of several encoders the mean of their scores: one product with joined rows and
        # vectors.
        means = [torch.cat(each, 1) / len(each) for each in zip(*vectors, strict=True)]
        self.names = dict(zip(("intent", "tag"), means, strict=False))
        self.intent_head = Linear(self.record_width, len(schema.intents), bias=False)
        torch.nn.init.zeros_(self.intent_head.weight)
        self.tag_head = FactoredLinear(self.token_width, torch.from_numpy(parts))
        self.forbid_broken_spans(schema, bonus=config.span_bonus)

    @classmethod
    def build(cls, config: Any, *, schema: LabelSchema, seed: int) -> Self:
        """See `ModelConfig.build`."""
        return cls(config, schema)

    @property
    def public_inputs(self) -> list[str]:
        """What it takes from public texts beside the encoder, each in words."""
        of = " and ".join(dict.fromkeys(each.encoder.moments_of for each in self.fixed))
        found = [f"mean and covariance of features, for whitening, over {of}"]
        if self.names:
            found.append(
                "how scores start from the labels' names, learned on the encoder's"
                " corpora"
            )
        return found

    def feature_table(self, types: Sequence[str]) -> FixedTable:
        """Rows computed at every use."""
        tables = [each.encoder.feature_table(types) for each in self.fixed]
        return FixedTable(self.fixed, tables, self._join)

    def loader(self, corpus: Corpus, *, cache_dir: Path) -> Loader:
        """Batches of the cached rows of this corpus, which each encoder has apart."""
        parts = [
            cache.cached_rows(
                corpus,
                Loader(corpus, each.encoder.feature_table(corpus.types)),
                each.rows,
                recipe=each.recipe,
                cache_dir=cache_dir,
            )
            for each in self.fixed
        ]
        return Loader(corpus, CachedTable(parts, corpus.offsets, self._join))

    def _join(self, parts: Sequence[cache.CachedRows]) -> dict[str, Tensor]:
        """The inputs of a batch from the rows that each of k encoders has of it: side
        by side, those of the heads divided by the root of k, so that they are as long
        as one encoder's, and with a constant behind them.
        """
        found = {}
        for name in dict.fromkeys(name for part in parts for name in part):
            of_each = [part[name] for part in parts if name in part]
            # By the heads; the others are scored by names.
            is_read = name in ("tokens", "records")
            constant = np.full(
                (len(of_each[0]), int(is_read)), self.config.bias, dtype=np.float32
            )
            rows = np.concatenate([*of_each, constant], axis=1, dtype=np.float32)
            if is_read:
                rows[:, :-1] *= np.float32(len(parts) ** -0.5)
            found[name] = torch.from_numpy(rows)
        for what, kind in (("tag", "token_names"), ("intent", "record_names")):
            if what in self.names:
                found[f"{what}_start"] = found.pop(kind) @ self.names[what].t()
        return found

    def records_at_once(self, lengths: NDArray[np.int64]) -> int | None:
        """How many records of these lengths a step passes at a time, so that a full
        batch of any size fits into memory; None: all, which are kept.
        """
        token = 4 * (self.token_width + self.num_tags * bool(self.names))  # bytes
        record = 4 * (self.record_width + self.num_intents * bool(self.names))
        if int(lengths.sum()) * token + len(lengths) * record <= _KEPT_BYTES:
            return None
        return max(1, _PASS_BYTES // (int(lengths.max()) * token + record))

    def save_public(self, folder: Path) -> None:
        """Write into `folder` the computed public moments of encoders without them, so
        that an exported model gives the same rows without computing them again.
        """
        for number, fixed in enumerate(self.fixed):
            if fixed.encoder.public.about is None:
                moments = fixed.encoder.moments(fixed.layers)
                save_file(pack(moments), folder / moments_file(number))

    def encode(self, batch: PackedBatch) -> Encoded:
        """The scores of both heads: no other part of a model reads rows."""
        layout = time_major(batch.lengths)
        intents, tags, _ = self._scores(batch)
        return Encoded(tags.index_select(0, layout.source), intents, layout)

    def _heads(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        return encoded.sentence, encoded.tokens

    def losses(self, batch: PackedBatch) -> Tensor:
        """[B]: cross-entropy of the intent plus `tag_weight` times the sum of the
        tokens' own, in nats, which is 0 of one whose tag is `sure`.

        Unlike in models with learned transitions, the losses of tokens are independent.
        """
        intents, tags, record = self._scores(batch)
        of = torch.from_numpy(record).to(tags.device)
        enough = -math.log(self.config.sure)
        summed = independent_losses(
            tags, batch.tags, of, batch.num_records, enough=enough
        )
        return (
            label_losses(intents.float(), batch.intents)
            + self.config.tag_weight * summed
        )

    def _scores(self, batch: PackedBatch) -> tuple[Tensor, Tensor, NDArray[np.int64]]:
        """[B, intents] and [T, tags], in the batch's order, and the record of each
        token [T].
        """
        record = np.repeat(np.arange(batch.num_records), batch.lengths.cpu().numpy())
        dtype = self.intent_head.weight.dtype
        inputs = {name: rows.to(dtype) for name, rows in batch.inputs.items()}
        intents = self.intent_head(inputs["records"], one_row_each(batch.num_records))
        tags = self.tag_head(inputs["tokens"], Rows(record, batch.num_records))
        if self.names:
            intents, tags = intents + inputs["intent_start"], tags + inputs["tag_start"]
        return intents, tags, record


def tag_parts(schema: LabelSchema) -> NDArray[np.float32]:
    """[tags, parts]: the weight of each part's row in a tag's weights; rows have norm
    1.

    One row for the type (the last part of a name, `city_name`), where names have roles
    for the role (the part before it, `toloc`, or none), and half a row for `B` or `I`
    and for the tag alone. Names are public. A rare tag is then learned from frequent
    parts.

    >>> tag_parts(LabelSchema(intents=("a",), slots=("to.city", "from.city"), source="doc")).shape
    (5, 10)
    >>> tag_parts(LabelSchema(intents=("a",), slots=("city",), source="doc")).shape
    (3, 6)
    """
    has_roles = any("." in slot for slot in schema.slots)
    parts = [_parts(tag, has_roles=has_roles) for tag in schema.tags]
    places = list(dict.fromkeys(place for part in parts for place in part))
    found = np.array(
        [[part.get(place, 0.0) for place in places] for part in parts], np.float32
    )
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))


def _parts(tag: str, *, has_roles: bool) -> dict[tuple[str, str], float]:
    if tag == "O":
        return {("tag", tag): 1.0}
    mark, name = tag.split("-", 1)
    role, _, kind = name.rpartition(".")
    found = {("mark", mark): _MARK, ("type", kind): 1.0, ("tag", tag): _OWN}
    return found | ({("role", role): 1.0} if has_roles else {})
