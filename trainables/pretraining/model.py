"""An encoder with an intent head and a tag head for each corpus."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.data.batches import PackedBatch
from trainables.data.records import LabelSchema
from trainables.models._bert import Bert

SMALL = LabelSchema(intents=("none",), slots=(), source="pretraining")  # an encoder's own heads


class MultiCorpus(nn.Module):
    """Reads the encoder's top layer; heads[k] are those of corpus k."""

    def __init__(self, encoder: Bert, schemas: Sequence[LabelSchema], *, width: int) -> None:
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
    def score(self, batch: PackedBatch, corpus: int) -> Tensor:
        """int64[2]: the right intents and the right tags of a batch."""
        intent, tag = self._logits(batch, corpus)
        right = (intent.argmax(1) == batch.intents).sum(), (tag.argmax(1) == batch.tags).sum()
        return torch.stack(right)

    def _logits(self, batch: PackedBatch, corpus: int) -> tuple[Tensor, Tensor]:
        states = self.encoder.layer_states(batch)
        return (
            self.intent_heads[corpus](states.records[-1]),
            self.tag_heads[corpus](states.tokens[-1]),
        )
