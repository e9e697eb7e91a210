"""A user's module as a model of intents and slots.

Records of equal length are processed together, so there is no padding and no mask, and
scores do not depend on other records. The losses of tags are independent; decoding
follows the BIO rules.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from trainables.data.batches import Loader, PackedBatch
from trainables.data.corpus import Corpus
from trainables.data.records import LabelSchema
from trainables.dp.layers.packing import by_length, time_major
from trainables.dp.seeding import stream_seed
from trainables.models.configs import OwnCodeConfig
from trainables.models.encoders.word_vectors import bucket
from trainables.models.nlu.base import Encoded, NluModel, label_losses
from trainables.models.user_module import factory as factories
from trainables.models.user_module import process as processes
from trainables.models.user_module.graph import Described, Graph, unchanged


class OwnModel(NluModel):
    """A user's module as an intent-and-slot model, run as graphs without its Python
    (see `graph`). It has heads of its own, so those of the base are not used; gradients
    are formed record by record. Packed inputs: `words` [T] or [T, F].
    """

    def __init__(
        self,
        described: Described,
        config: OwnCodeConfig,
        schema: LabelSchema,
        *,
        seed: int,
    ) -> None:
        super().__init__(schema, token_width=1, seed=seed)
        self.intent_head = nn.Identity()  # type: ignore[assignment]  # the module has heads
        self.tag_head = nn.Identity()
        self.module = Graph(described, factory=config.factory)
        self.factory = config.factory
        self.provenance = (
            f"own code {config.factory} (SHA-256 {(config.source or '')[:12]}); what"
            " its weights start from is known to its author alone"
        )
        self.forbid_broken_spans(schema)
        self._config, self._schema = config, schema
        self._encodes: bool = described.encodes
        self._numbers: dict[str, Tensor] = {}
        self._is_secret = False
        self._passes = 0

    @classmethod
    def build(cls, config: Any, *, schema: LabelSchema, seed: int) -> Self:
        """See `ModelConfig.build`. The user's module as graphs, tried on made numbers;
        its code runs in a process of its own.

        Raises: InvalidInput where the factory fails, or the module does not keep to
            what is required of it (shapes, records apart, no state, gradients that
            `torch.func` can form).
        """
        # Which imports this class.
        from trainables.models.user_module.checks import require_sound

        factories.require_source(config.factory, config.source)
        found = processes.described(config, schema, seed=seed)
        model = cls(found, config, schema, seed=seed)
        require_sound(model, found.numbers)
        return model

    def loader(self, corpus: Corpus, *, cache_dir: Path) -> Loader:
        """See `NluModel.loader`. The words of the corpus are encoded by two processes
        of the code, in two orders.

        Raises: InvalidInput where a word's numbers depend on other words, or a record
            is longer than the module can take.
        """
        self.module.require_length(int(corpus.lengths.max(initial=0)))
        types = list(corpus.types)
        if not self._encodes or not types:
            return Loader(corpus, self.feature_table(types))
        found = processes.encoded_in_two_orders(
            self._config, self._schema, types, seed=self._seed
        )
        return Loader(corpus, WordTable(found))

    def feature_table(self, types: Sequence[str]) -> WordTable:
        """The module's `encode_word` of each distinct word, or its hash bucket. A
        process of the code encodes those that are new.

        Raises: InvalidInput where it fails.
        """
        if not self._encodes:
            size = self._config.word_buckets
            return WordTable(torch.tensor([bucket(word, size) for word in types]))
        new = [word for word in types if word not in self._numbers]
        if new:
            found = processes.encoded(self._config, self._schema, new, seed=self._seed)
            self._numbers |= dict(zip(new, found, strict=True))
        return WordTable(torch.stack([self._numbers[word] for word in types]))

    @property
    def trained(self) -> list[tuple[str, nn.Parameter]]:
        """The module's weights that are trained, with their names in it."""
        return [
            (name, p) for name, p in self.module.named_parameters() if p.requires_grad
        ]

    @contextmanager
    def watched(self, *, deep: bool = False) -> Iterator[None]:
        """See `NluModel.watched`. Of the graphs' form nothing can change; this looks
        all the same.
        """
        with unchanged(self.module, deep=deep):
            yield

    def keep_draws_secret(self) -> None:
        """Draw dropout from a secret seed. A mask depends on a record's place in its
        pass, which other records change, so masks must be unknown for the places to be
        exchangeable.
        """
        self._is_secret = True

    def begin_step(self, *names: str | int) -> None:
        """Pin dropout to the step, unless it must be secret."""
        super().begin_step(*names)
        self._passes = 0

    def forward(self, words: Tensor, tags: Tensor, intents: Tensor) -> Tensor:
        """[n]: losses of records of equal length, as `losses` gives them."""
        of_tags, of_intents = self.module(words)
        each = label_losses(of_tags.float().transpose(1, 2), tags)
        return label_losses(of_intents.float(), intents) + each.sum(1)

    def record_groups(
        self, batch: PackedBatch
    ) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
        """Records of equal length, the longest first (see `layers.per_record`)."""
        for places, (words, tags) in self._groups(
            batch, batch.inputs["words"], batch.tags
        ):
            with self._draws():
                yield places, (words, tags, batch.intents.index_select(0, places))

    def losses(self, batch: PackedBatch) -> Tensor:
        """[B]: cross-entropy of the intent plus the sum over tokens of theirs, in nats.
        A label that the schema lacks (-1) adds nothing.
        """
        found = [
            (self(*inputs), places) for places, inputs in self.record_groups(batch)
        ]
        losses, order = map(torch.cat, zip(*found, strict=True))
        return losses.index_select(0, order.argsort())

    def encode(self, batch: PackedBatch) -> Encoded:
        """The scores: of tokens in time-major order, of records in the batch's
        order.
        """
        found = []
        for places, (words,) in self._groups(batch, batch.inputs["words"]):
            tags, intents = self.module(words)
            found.append((tags.flatten(0, 1).float(), intents.float(), places))
        of_tags, of_intents, order = map(torch.cat, zip(*found, strict=True))
        layout = time_major(batch.lengths)
        packed = of_tags.index_select(0, by_length(batch.lengths).place)
        records = of_intents.index_select(0, order.argsort())
        return Encoded(packed.index_select(0, layout.source), records, layout)

    def _heads(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        return encoded.sentence, encoded.tokens

    def _groups(
        self, batch: PackedBatch, *columns: Tensor
    ) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
        """(records [n], each packed column as [n, length, ...]) by length."""
        layout = by_length(batch.lengths)
        for first, count, length in layout.groups:
            rows = layout.source[first : first + count * length]
            found = (column.index_select(0, rows) for column in columns)
            yield (
                layout.record[first : first + count * length : length],
                tuple(each.view(count, length, *each.shape[1:]) for each in found),
            )

    @contextmanager
    def _draws(self) -> Iterator[None]:
        """A context in which random draws depend on this step and pass."""
        if not self.training:
            yield
            return
        self._passes += 1
        seed = secrets.randbits(62)
        if not self._is_secret and self._step is not None:
            seed = stream_seed(self._step, "pass", self._passes)
        with drawn_from(seed, self):
            yield


@contextmanager
def drawn_from(seed: int, model: nn.Module) -> Iterator[None]:
    """A context of passes of `model` whose generators of torch start at `seed` and are
    then as they were.
    """
    devices = {p.device.index for p in model.parameters() if p.is_cuda}
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


@dataclass(frozen=True, eq=False)
class WordTable:
    """A module's inputs for each distinct word: `words` [V] or [V, F]."""

    words: Tensor

    def collate(
        self, token_ids: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]
    ) -> dict[str, Tensor]:
        """See `data.batches.FeatureTable`."""
        return {"words": self.words[torch.from_numpy(token_ids.astype(np.int64))]}
