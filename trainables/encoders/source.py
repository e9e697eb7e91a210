"""Encoders with their weights: one of `sweep pretrain` in its folder, or a public one.

    encoder.json         the card (corpora, licences, counts), the layers, the format
    model.safetensors, config.json, tokenizer files
                         a BERT as `transformers` names it, in 32, 16 or 8 bits, heads left out
    moments.safetensors  mean and covariance of the layers' joined rows, of tokens and of records
    names.safetensors    how label names score tokens and records, learnt on the public corpora
    learnt.npy           hashes of its pretraining texts (`encoders.about`)

A folder contains no private data; it is made from the public corpora that the card names.

A public one reads records of equal length together without padding, so a record's states do not
depend on the other records. A record of more pieces than there are positions is read in windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainables import catalogue
from trainables.config import data_config, model_part
from trainables.data.batches import PackedBatch
from trainables.data.records import LabelSchema
from trainables.encoders.about import ABOUT, LEARNT, MOMENTS, NAMES, WEIGHTS, About, about_of
from trainables.encoders.hub import PublicEncoder, public_encoder
from trainables.encoders.identity import digest_of
from trainables.encoders.pieces import PieceTable, WordCutter, tokenizer_in, word_cutter
from trainables.encoders.rows import (
    BothMoments,
    Encoder,
    LayerStates,
    NameScores,
    load_moments,
    moments_of,
    public_moments,
)
from trainables.errors import InvalidData, one_line, words_of

# The files of an encoder; other files in its folder are never exported.
FILES = (
    *(ABOUT, WEIGHTS, MOMENTS, NAMES, LEARNT, "config.json"),
    *("tokenizer.json", "tokenizer_config.json", "vocab.txt"),
    *("special_tokens_map.json", "added_tokens.json"),
)
Bits = Literal[32, 16, 8]
_SCALE = ".scale"
_LARGEST = 127
_NONE = LabelSchema(intents=("none",), slots=(), source="none")  # an encoder's own heads
_PIECES_AT_ONCE = 4_096
_MADE = ("health", "video")  # corpora
_EACH = 1_000  # made utterances of each
_AT_ONCE = 100


def save_tensors(tensors: Mapping[str, Tensor], file: Path, *, bits: Bits) -> None:
    """Write tensors in so many bits; whole numbers keep their type.

    In 8 bits a matrix has one float32 scale a row, and the error of an entry is at most 1/254 of
    the largest of its row. Vectors keep 16 bits.
    """
    kept: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if bits == 32 or not tensor.is_floating_point():
            kept[name] = tensor.contiguous()
        elif bits == 8 and tensor.dim() > 1:
            largest = tensor.float().abs().flatten(1).amax(1)
            scale = (largest / _LARGEST).clamp(min=torch.finfo(torch.float32).tiny)
            rows = (tensor.float() / _beside(scale, tensor)).round().clamp(-_LARGEST, _LARGEST)
            kept[name], kept[name + _SCALE] = rows.to(torch.int8), scale
        else:
            kept[name] = tensor.half().contiguous()
    save_file(kept, str(file), metadata={"format": "pt"})


def load_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a file of `save_tensors`, floating point as float32.

    Raises: OSError, ValueError, KeyError or SafetensorError where it is missing or damaged.
    """
    found = load_file(str(file))
    for name in [name for name in found if name.endswith(_SCALE)]:
        scale, rows = found.pop(name), found[name.removesuffix(_SCALE)]
        found[name.removesuffix(_SCALE)] = rows.float() * _beside(scale, rows)
    return {k: t.float() if t.is_floating_point() else t for k, t in found.items()}


def _beside(scale: Tensor, rows: Tensor) -> Tensor:
    return scale.view(-1, *[1] * (rows.dim() - 1))


@dataclass(frozen=True, eq=False)
class FixedSource:
    """`layers` are the layers with states, `default` those joined by default; `widths` of each
    layer's rows of tokens and of records; `moments(layers, cache_dir)` are public, computed from
    `moments_of`, in words.
    """

    encoder: Encoder
    layers: tuple[int, ...]
    default: tuple[int, ...]
    widths: tuple[tuple[int, ...], tuple[int, ...]]
    moments: Callable[[tuple[int, ...], Path | None], BothMoments]
    digest: str
    provenance: str
    names: NameScores | None = None
    moments_of: str = "utterances of the encoder's corpora"
    has_own_moments: bool = True


def source_of(name: str) -> FixedSource:
    """The encoder of that name.

    Raises: InvalidInput where it cannot be found or used, InvalidData where its files are damaged.
    """
    public = public_encoder(name)
    if (about := about_of(name)) is not None:
        return _own(about, public)
    encoder = HubEncoder(public)
    every = tuple(range(public.config.num_layers + 1))
    widths = (public.config.width,) * len(every)
    digest = public.digest()

    def moments(layers: tuple[int, ...], cache_dir: Path | None) -> BothMoments:
        return public_moments(
            lambda: moments_of(map(encoder.layer_states, _made_batches(encoder)), layers),
            layers,
            place=public.place,
            digest=digest,
            cache_dir=cache_dir,
        )

    return FixedSource(
        encoder,
        every,
        public.default_layers,
        (widths, widths),
        moments,
        digest,
        f"features of {public.provenance}; SHA-256 {digest[:12]}",
        moments_of=f"utterances of the made corpora {' and '.join(_MADE)}",
        has_own_moments=False,
    )


def _own(about: About, public: PublicEncoder) -> FixedSource:
    """Raises: InvalidData where its files are damaged, or its moments are missing."""
    place, layers = about.place, about.layers
    fields = model_part(name="bert", encoder=str(place), num_layers=public.config.num_layers)
    encoder: Any = catalogue.entry("models", "bert").build(fields, schema=_NONE, seed=0)
    encoder.eval().requires_grad_(False)
    try:
        tokens, records = load_moments(place / MOMENTS)
        names = place / NAMES
        scores = NameScores(**load_tensors(names)) if names.is_file() else None
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        raise InvalidData(
            f"expected the moments and names of an encoder in {place}, got none or a damaged file"
        ) from None

    def moments(chosen: tuple[int, ...], cache_dir: Path | None) -> BothMoments:
        places = [layers.index(layer) for layer in chosen]
        return tokens.of(places), records.of(places)

    digest = digest_of(place)
    return FixedSource(
        encoder,
        layers,
        layers,
        (tokens.widths, records.widths),
        moments,
        digest,
        f"features of {public.provenance}; SHA-256 {digest[:12]}",
        scores,
    )


def _made_batches(encoder: Encoder) -> Iterator[PackedBatch]:
    texts: set[tuple[str, ...]] = set()
    for name in _MADE:
        config = data_config(name=name, num_utterances=_EACH)
        made = catalogue.entry("datasets", name).read(Path(), config=config)
        texts |= {utterance.tokens for utterance in made}
    ordered = sorted(texts, key=lambda text: (len(text), text))
    types = sorted({word for text in ordered for word in text})
    place = {word: number for number, word in enumerate(types)}
    table = encoder.feature_table(types)
    for low in range(0, len(ordered), _AT_ONCE):
        some = ordered[low : low + _AT_ONCE]
        ids = np.array([place[word] for text in some for word in text], dtype=np.int32)
        lengths = np.array([len(text) for text in some], dtype=np.int64)
        yield PackedBatch.unlabelled(table.collate(ids, lengths), torch.from_numpy(lengths))


class HubEncoder:
    """No module: it is not trained. Weights are read at the first use; cached rows need none."""

    def __init__(self, public: PublicEncoder) -> None:
        self.public = public
        self.cutter: WordCutter = word_cutter(tokenizer_in(public.place), place=public.name)

    @cached_property
    def model(self) -> Any:
        """The model of `transformers`, in eval mode.

        Raises: InvalidData where its folder lacks weights of a layer, or they cannot be read.
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
        shape = self.public.config.num_layers + 1, self.public.config.width
        every = torch.empty(shape[0], len(pieces), shape[1])
        records = torch.zeros(shape[0], len(lengths), shape[1])
        counts = torch.zeros(len(lengths))
        for windows in _windows(lengths, self.public.positions):
            inner = [pieces[start:stop] for _, start, stop in windows]
            ids = np.pad(np.stack(inner), ((0, 0), (1, 1)))
            ids[:, 0], ids[:, -1] = self.cutter.begin, self.cutter.end
            states = self._run(torch.from_numpy(ids))
            for place, (record, start, stop) in enumerate(windows):
                every[:, start:stop] = states[:, place, 1:-1]
                records[:, record] += states[:, place].sum(1)
                counts[record] += ids.shape[1]
        tokens = every.index_select(1, batch.inputs["first_piece"])
        return LayerStates(tuple(tokens), tuple(records / counts.unsqueeze(1)))

    def _run(self, ids: Tensor) -> Tensor:
        """[layers + 1, B, L, D] of rows of equal length."""
        found = self.model(
            input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True
        )
        return torch.stack(found.hidden_states)


def _windows(lengths: np.ndarray, positions: int) -> Iterator[list[tuple[int, int, int]]]:
    """(record, first piece, end) of all windows, without the pieces at their ends; those of equal
    length together.
    """
    of_length: dict[int, list[tuple[int, int, int]]] = {}
    ends = np.cumsum(lengths)
    for record, (end, length) in enumerate(zip(ends.tolist(), lengths.tolist(), strict=True)):
        for start in range(end - length + 1, end - 1, positions - 2):
            stop = min(start + positions - 2, end - 1)
            of_length.setdefault(stop - start + 2, []).append((record, start, stop))
    for length, windows in sorted(of_length.items()):
        many = max(1, _PIECES_AT_ONCE // length)
        for low in range(0, len(windows), many):
            yield windows[low : low + many]


def load_model(public: PublicEncoder, **changes: Any) -> Any:
    """The base model of an encoder, float32, in eval mode; `changes` are to its config.

    Raises: InvalidData where its folder lacks weights of a layer, or they cannot be read.
    """
    from transformers import AutoConfig, AutoModel

    place = str(public.place)
    options = {"trust_remote_code": False, "local_files_only": True, **changes}
    made = {"dtype": torch.float32, "attn_implementation": "eager"}
    try:
        with quiet(), torch.random.fork_rng(devices=[]):
            if (public.place / ABOUT).is_file():  # perhaps in 8 bits, which the library cannot read
                config = AutoConfig.from_pretrained(place, **options)
                model = AutoModel.from_config(config, **made)
                own = load_tensors(public.place / WEIGHTS)
                missing, _ = model.load_state_dict(own, strict=False)
                report = {"missing_keys": missing, "mismatched_keys": ()}
            else:
                model, report = AutoModel.from_pretrained(
                    place, weights_only=True, output_loading_info=True, **options, **made
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


@contextmanager
def quiet() -> Iterator[None]:
    """Switch off the library's report of unused weights of a shallower encoder and its progress
    bars.
    """
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
