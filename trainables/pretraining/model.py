"""An encoder with an intent head and a tag head for each corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.data.batches import PackedBatch
from trainables.data.records import LabelSchema
from trainables.models._nlu import NluModel

SMALL = LabelSchema(intents=("none",), slots=(), source="pretraining")  # an encoder's own heads


@dataclass(frozen=True, eq=False)
class Scores:
    """Sums over a batch: right intents, right tags, and of how many."""

    intents: int
    records: int
    tags: int
    tokens: int


class MultiCorpus(nn.Module):
    """Reads the encoder's top layer; heads[k] are those of corpus k."""

    def __init__(self, encoder: NluModel, schemas: Sequence[LabelSchema], *, width: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.intent_heads = nn.ModuleList(nn.Linear(width, len(s.intents)) for s in schemas)
        self.tag_heads = nn.ModuleList(nn.Linear(width, len(s.tags)) for s in schemas)

    def loss(self, batch: PackedBatch, corpus: int, *, tag_weight: float) -> Tensor:
        """Mean over records of intent loss + `tag_weight` * summed tag loss, in nats."""
        intent, tag = self._logits(batch, corpus)
        tags = F.cross_entropy(tag, batch.tags, reduction="sum") / batch.num_records
        return F.cross_entropy(intent, batch.intents) + tag_weight * tags

    @torch.no_grad()
    def score(self, batch: PackedBatch, corpus: int) -> Scores:
        """Counts of the right labels of a batch."""
        intent, tag = self._logits(batch, corpus)
        return Scores(
            intents=int((intent.argmax(1) == batch.intents).sum()),
            records=batch.num_records,
            tags=int((tag.argmax(1) == batch.tags).sum()),
            tokens=len(batch.tags),
        )

    def _logits(self, batch: PackedBatch, corpus: int) -> tuple[Tensor, Tensor]:
        states = self.encoder.layer_states(batch)
        return (
            self.intent_heads[corpus](states.records[-1]),
            self.tag_heads[corpus](states.tokens[-1]),
        )
