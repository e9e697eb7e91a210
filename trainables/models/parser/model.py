"""A small sequence-to-sequence Transformer from utterances to programs in prefix
notation.

Two encoder layers and one decoder layer, pre-norm, width 128, about a million
parameters; the decoder's output table is its input table. Where literals are copied,
the decoder also points at source pieces (pointer network, Vinyals et al. 2015). A
choice is a token or a place: scores are [tokens | source places], and the previous
token determines which of the two may follow.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class ParserSizes:
    """The architecture of a parser: `width` of all states, attention `heads`, width of
    the feed-forward layers, numbers of encoder and decoder layers, rate of dropout. The
    defaults have about a million parameters.
    """

    width: int = 128
    heads: int = 4
    feed_forward: int = 512
    encoder_layers: int = 2
    decoder_layers: int = 1
    dropout: float = 0.1


class ParserModel(nn.Module):
    """A Transformer from `num_words` kinds of source pieces to programs over
    `num_tokens` kinds of tokens, in which a choice may also copy a piece of the source.

    Decoder inputs are ids of tokens, and `num_tokens` + place for a copied piece.
    """

    def __init__(self, sizes: ParserSizes, *, num_words: int, num_tokens: int) -> None:
        super().__init__()
        self.num_tokens = num_tokens
        width = sizes.width
        self._scale = math.sqrt(width)  # tables are small, so that tied scores are
        self.words = nn.Embedding(num_words, width)
        # The last row begins a program.
        self.tokens = nn.Embedding(num_tokens + 1, width)
        for table in (self.words, self.tokens):
            nn.init.normal_(table.weight, std=width**-0.5)
        of_layer = width, sizes.heads, sizes.feed_forward, sizes.dropout
        above = nn.TransformerEncoderLayer(*of_layer, batch_first=True, norm_first=True)
        below = nn.TransformerDecoderLayer(*of_layer, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(
            above,
            sizes.encoder_layers,
            norm=nn.LayerNorm(width),
            enable_nested_tensor=False,
        )
        self.decoder = nn.TransformerDecoder(
            below, sizes.decoder_layers, norm=nn.LayerNorm(width)
        )
        self.point = nn.Linear(width, width, bias=False)
        self.dropout = nn.Dropout(sizes.dropout)

    def encode(self, words: Tensor, padding: Tensor) -> Tensor:
        """States [B, S, d] of the pieces `words` [B, S]; `padding` is True where there
        is none.
        """
        rows = self._add_positions(self.words(words) * self._scale)
        states: Tensor = self.encoder(rows, src_key_padding_mask=padding)
        return states

    def forward(self, states: Tensor, padding: Tensor, inputs: Tensor) -> Tensor:
        """Scores [B, T, tokens + S] of the choice at the start of each program and
        after each of `inputs` [B, T - 1], for source states [B, S, d].

        Neither kind of choice is masked; padded places are.
        """
        rows = self.tokens(inputs.clamp(max=self.num_tokens - 1)) * self._scale
        if inputs.shape[1]:
            places = (inputs - self.num_tokens).clamp(min=0)[:, :, None]
            pointed = states.gather(1, places.expand(-1, -1, states.shape[2]))
            rows = torch.where((inputs >= self.num_tokens)[:, :, None], pointed, rows)
        start = self.tokens(inputs.new_full((len(inputs), 1), self.num_tokens))
        rows = torch.cat([start * self._scale, rows], dim=1)
        length = rows.shape[1]
        future = rows.new_ones(length, length, dtype=torch.bool).triu(1)
        found = self.decoder(
            self._add_positions(rows),
            states,
            tgt_mask=future,
            memory_key_padding_mask=padding,
        )
        tokens = found @ self.tokens.weight[:-1].T
        places = self.point(found) @ states.transpose(1, 2) / self._scale
        places = places.masked_fill(padding[:, None], -math.inf)
        return torch.cat([tokens, places], dim=2)

    def _add_positions(self, rows: Tensor) -> Tensor:
        length, width = rows.shape[1:]
        moved: Tensor = self.dropout(rows + _positions(length, width).to(rows))
        return moved


def _positions(length: int, width: int) -> Tensor:
    """Sines and cosines (Vaswani et al. 2017), [length, width]: no longest sequence."""
    place = torch.arange(length)[:, None]
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate)
    return table
