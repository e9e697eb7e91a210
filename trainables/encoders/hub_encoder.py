"""A fixed public encoder of any family, for features alone.

Records of equal length are read together without padding, so a record's states do not depend on the
other records. A record of more pieces than there are positions is read in windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from trainables.documents import one_line, words_of
from trainables.encoders.families import PublicEncoder
from trainables.encoders.rows import LayerStates
from trainables.encoders.words import WordCutter, tokenizer_in, word_cutter
from trainables.errors import InvalidData

if TYPE_CHECKING:
    from trainables.data.batches import PackedBatch
    from trainables.encoders.pieces import PieceTable

_PIECES_AT_ONCE = 4_096


class HubEncoder:
    """No module: it is not trained. Weights are read at the first use; cached rows need none."""

    def __init__(self, public: PublicEncoder) -> None:
        self.public = public
        self.cutter: WordCutter = word_cutter(tokenizer_in(public.place), place=public.name)

    @cached_property
    def model(self) -> Any:
        """The model of `transformers`, in eval mode.

        Raises: InvalidData where its folder lacks weights of a layer, InvalidData where they
            cannot be read.
        """
        return load_model(self.public)

    def feature_table(self, types: Sequence[str]) -> PieceTable:
        """Pieces of the distinct tokens."""
        return self.cutter.table(types)

    @torch.no_grad()
    def layer_states(self, batch: PackedBatch) -> LayerStates:
        """The state of a token is its first piece's, that of a record the mean of its pieces'."""
        pieces = batch.inputs["pieces"].numpy()
        lengths = batch.inputs["piece_lengths"].numpy()
        first = batch.inputs["first_piece"].numpy()
        num_states, width = self.public.num_layers + 1, self.public.width
        every = torch.empty(num_states, len(pieces), width)
        records = torch.zeros(num_states, len(lengths), width)
        counts = torch.zeros(len(lengths))
        for windows in self._windows(lengths):
            ids = np.stack([each.ids(pieces, self.cutter) for each in windows])
            states = self._run(torch.from_numpy(ids))
            for place, window in enumerate(windows):
                inner = slice(window.skip, window.skip + window.stop - window.start)
                every[:, window.start : window.stop] = states[:, place, inner]
                records[:, window.record] += states[:, place].sum(1)
                counts[window.record] += ids.shape[1]
        tokens = every.index_select(1, torch.from_numpy(first))
        return LayerStates(tuple(tokens), tuple(records / counts.unsqueeze(1)))

    def _run(self, ids: Tensor) -> Tensor:
        """[layers + 1, B, L, D] of rows of equal length."""
        found = self.model(
            input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True
        )
        return torch.stack(found.hidden_states)

    def _windows(self, lengths: np.ndarray) -> Iterator[list[_Window]]:
        """All windows of the records, those of equal length together."""
        of_length: dict[int, list[_Window]] = {}
        ends = np.cumsum(lengths)
        for record, (end, length) in enumerate(zip(ends.tolist(), lengths.tolist(), strict=True)):
            for window in _cut(record, end - length, end, self.public.positions):
                of_length.setdefault(window.length, []).append(window)
        for length, windows in sorted(of_length.items()):
            many = max(1, _PIECES_AT_ONCE // length)
            for low in range(0, len(windows), many):
                yield windows[low : low + many]


@dataclass(frozen=True)
class _Window:
    """Pieces `start:stop` of a batch, with what must be put before and behind them."""

    record: int
    start: int
    stop: int
    skip: int = 0  # 1 with a begin piece
    ends: bool = True  # whether its last piece is the end of the record

    @property
    def length(self) -> int:
        return self.skip + self.stop - self.start + (not self.ends)

    def ids(self, pieces: np.ndarray, cutter: WordCutter) -> np.ndarray:
        before, behind = [cutter.begin] * self.skip, [cutter.end] * (not self.ends)
        return np.concatenate([before, pieces[self.start : self.stop], behind]).astype(np.int64)


def _cut(record: int, start: int, stop: int, limit: int) -> Iterator[_Window]:
    """The windows of a record: one where it fits, else pieces of at most `limit`."""
    if stop - start <= limit:
        yield _Window(record, start, stop)
        return
    skip = 0
    while stop - start + skip > limit:
        inner = start + limit - 1 - skip
        yield _Window(record, start, inner, skip, ends=False)
        start, skip = inner, 1
    yield _Window(record, start, stop, skip)


def load_model(public: PublicEncoder, **changes: Any) -> Any:
    """The base model of an encoder, float32, in eval mode; `changes` are to its config.

    Raises: InvalidData where its folder lacks weights of a layer, InvalidData where they cannot be
        read.
    """
    from transformers import AutoModel

    from trainables.encoders.quiet import quiet

    place = str(public.place)
    try:
        with quiet():
            model, report = AutoModel.from_pretrained(
                place,
                trust_remote_code=False,
                local_files_only=True,
                weights_only=True,
                dtype=torch.float32,
                attn_implementation="eager",
                output_loading_info=True,
                **changes,
            )
    except Exception as error:  # noqa: BLE001  the library raises many kinds for a damaged file
        said = one_line(words_of(error), characters=300)
        raise InvalidData(f"expected an encoder that loads in {place}, got {said}") from None
    require_all_weights(report, name=public.name)
    return model.eval().requires_grad_(False)


def require_all_weights(report: Mapping[str, Any], *, name: str) -> None:
    """Refuse a model whose folder lacks weights: the library draws the others at random. `report`
    is its loading info, `name` the model.encoder; a pooler is not used.

    Raises: InvalidData.
    """
    lacking = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    if lacking or report["mismatched_keys"]:
        raise InvalidData(
            f"expected all weights of model.encoder={name} in its folder, got none for"
            f" {(lacking or ['some of another size'])[0]}"
        )
