"""What a user would write: padded batches, `nn.LSTM` or transformers' BERT, `pytorch-crf`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torchcrf import CRF
from transformers import BertConfig, BertModel

from trainables.layers.char_cnn import NUM_CHARS


class StockClc(nn.Module):
    """The same architecture as `models.clc`, padded."""

    def __init__(self, *, num_buckets: int, num_intents: int, num_tags: int) -> None:
        super().__init__()
        self.words = nn.Embedding(num_buckets, 50)
        self.chars = nn.Embedding(NUM_CHARS, 16)
        self.filters = nn.Conv1d(16, 50, 3, padding=1)
        self.lstm = nn.LSTM(
            100, 384, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1
        )
        self.intent, self.tags = nn.Linear(768, num_intents), nn.Linear(768, num_tags)
        self.crf = CRF(num_tags, batch_first=True)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Mean loss of the batch."""
        return self.losses(batch).mean()

    def losses(self, batch: dict[str, Tensor]) -> Tensor:
        """[B]."""
        num, longest, width = batch["chars"].shape
        chars = self.chars(batch["chars"].view(-1, width)).transpose(1, 2)
        features = F.relu(self.filters(chars)).amax(2).view(num, longest, -1)
        x = F.dropout(torch.cat([self.words(batch["words"]), features], 2), 0.1, self.training)
        x = F.dropout(self.lstm(x)[0], 0.1, self.training)
        mask = batch["mask"]
        mean = (x * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True)
        loss = F.cross_entropy(self.intent(mean), batch["intents"], reduction="none")
        return loss - self.crf(self.tags(x), batch["tags"], mask.bool(), reduction="none")


class StockBert(nn.Module):
    """transformers' BERT with SDPA attention, a padded CRF on first pieces."""

    def __init__(self, config: BertConfig, *, num_intents: int, num_tags: int) -> None:
        super().__init__()
        self.encoder = BertModel(config, add_pooling_layer=False)
        width = config.hidden_size
        self.intent, self.tags = nn.Linear(width, num_intents), nn.Linear(width, num_tags)
        self.crf = CRF(num_tags, batch_first=True)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Mean loss of the batch."""
        return self.losses(batch).mean()

    def losses(self, batch: dict[str, Tensor]) -> Tensor:
        """[B]."""
        x = self.encoder(batch["pieces"], attention_mask=batch["piece_mask"]).last_hidden_state
        x = F.dropout(x, 0.1, self.training)
        loss = F.cross_entropy(self.intent(x[:, 0]), batch["intents"], reduction="none")
        index = batch["first"].unsqueeze(2).expand(-1, -1, x.shape[2])
        emissions = self.tags(x.gather(1, index))
        return loss - self.crf(emissions, batch["tags"], batch["mask"].bool(), reduction="none")


def padded(batch: Any) -> dict[str, Tensor]:
    """A packed batch as the stock models take it."""
    lengths = batch.lengths.tolist()

    def pad(values: Tensor, sizes: list[int]) -> Tensor:
        return pad_sequence(values.split(sizes), batch_first=True)

    out = {
        "intents": batch.intents,
        "tags": pad(batch.tags, lengths),
        "mask": pad(torch.ones_like(batch.tags), lengths),
    }
    inputs = batch.inputs
    if "pieces" in inputs:
        sizes = inputs["piece_lengths"].tolist()
        begins = (inputs["piece_lengths"].cumsum(0) - inputs["piece_lengths"]).tolist()
        firsts = inputs["first_piece"].split(lengths)
        out["first"] = pad_sequence(
            [first - begin for first, begin in zip(firsts, begins, strict=True)], batch_first=True
        )
        out["pieces"] = pad(inputs["pieces"], sizes)
        out["piece_mask"] = pad(torch.ones_like(inputs["pieces"]), sizes)
    else:
        out["words"] = pad(inputs["words"], lengths)
        out["chars"] = pad(inputs["chars"][inputs["char_word"]], lengths)
    return out
