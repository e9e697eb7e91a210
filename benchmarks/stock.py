"""A typical implementation: padding, `nn.LSTM` or transformers' BERT, `pytorch-crf`,
Adam.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torchcrf import CRF
from transformers import BertModel

from trainables.config.trial import ModelConfig
from trainables.dp.layers.char_cnn import NUM_CHARS
from trainables.models.configs import BertConfig, ClcConfig
from trainables.models.nlu.bert_weights import BertSizes

Batch = dict[str, Tensor]


class StockClc(nn.Module):
    """The same architecture as `models.clc`, padded."""

    def __init__(self, config: ClcConfig, *, num_intents: int, num_tags: int) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.words = nn.Embedding(config.word_buckets, config.word_dim)
        self.chars = nn.Embedding(NUM_CHARS, config.char_dim)
        kernel = config.char_kernel
        self.filters = nn.Conv1d(
            config.char_dim, config.char_filters, kernel, padding=kernel // 2
        )
        self.lstm = nn.LSTM(
            config.word_dim + config.char_filters,
            hidden,
            num_layers=config.num_layers,
            bidirectional=True,
            batch_first=True,
            dropout=config.dropout if config.num_layers > 1 else 0.0,
        )
        self.dropout = config.dropout
        self.intent, self.tags = (
            nn.Linear(2 * hidden, num_intents),
            nn.Linear(2 * hidden, num_tags),
        )
        self.crf = CRF(num_tags, batch_first=True)

    def forward(self, batch: Batch) -> Tensor:
        """[B]: one loss a record."""
        chars = self.chars(batch["chars"])
        found = self.filters(chars.flatten(0, 1).transpose(1, 2))
        features = F.relu(found).amax(2).view(*chars.shape[:2], -1)
        x = torch.cat([self.words(batch["words"]), features], 2)
        x = self.lstm(F.dropout(x, self.dropout, self.training))[0]
        x = F.dropout(x, self.dropout, self.training)
        mask = batch["mask"]
        mean = (x * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True)
        loss = F.cross_entropy(self.intent(mean), batch["intents"], reduction="none")
        return loss - likelihoods(self.crf, self.tags(x), batch["tags"], mask)


class StockBert(nn.Module):
    """transformers' BERT with SDPA attention, a padded CRF on first pieces."""

    def __init__(
        self, sizes: BertSizes, *, dropout: float, num_intents: int, num_tags: int
    ) -> None:
        super().__init__()
        config = sizes.to_config(
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            attn_implementation="sdpa",
        )
        self.encoder = BertModel(config, add_pooling_layer=False)
        self.dropout = dropout
        self.intent = nn.Linear(sizes.width, num_intents)
        self.tags = nn.Linear(sizes.width, num_tags)
        self.crf = CRF(num_tags, batch_first=True)

    def forward(self, batch: Batch) -> Tensor:
        """[B]: one loss a record."""
        pieces = batch["pieces"]
        x = self.encoder(
            pieces,
            attention_mask=batch["piece_mask"],
        ).last_hidden_state
        x = F.dropout(x, self.dropout, self.training)
        loss = F.cross_entropy(self.intent(x[:, 0]), batch["intents"], reduction="none")
        index = batch["first"].unsqueeze(2).expand(-1, -1, x.shape[2])
        emissions = self.tags(x.gather(1, index))
        return loss - likelihoods(self.crf, emissions, batch["tags"], batch["mask"])


def likelihoods(crf: Any, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """[B]: the log-likelihoods of `pytorch-crf`."""
    found: Tensor = crf(emissions, tags, mask.bool(), reduction="none")
    return found


def build(model: Any, config: ModelConfig) -> StockClc | StockBert:
    """The stock form of one of our models, of the same sizes, in training mode."""
    sizes = {"num_intents": model.num_intents, "num_tags": model.num_tags}
    made: StockClc | StockBert
    if isinstance(config, BertConfig):
        made = StockBert(model.sizes, dropout=config.dropout, **sizes)
    else:
        assert isinstance(config, ClcConfig)  # the other model of MODELS
        made = StockClc(config, **sizes)
    return made.train()


def pad_batch(batch: Any) -> Batch:
    """A packed batch in the padded form of the stock models."""
    lengths = batch.lengths.tolist()

    def pad(values: Tensor, sizes: list[int]) -> Tensor:
        return pad_sequence(list(torch.split(values, sizes)), batch_first=True)

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
            [first - begin for first, begin in zip(firsts, begins, strict=True)],
            batch_first=True,
        )
        out["pieces"] = pad(inputs["pieces"], sizes)
        out["piece_mask"] = pad(torch.ones_like(inputs["pieces"]), sizes)
    else:
        out["words"] = pad(inputs["words"], lengths)
        out["chars"] = pad(inputs["chars"][inputs["char_word"]], lengths)
    return out
