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
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainables import catalogue
from trainables.config import data_config, model_part
from trainables.data.batches import PackedBatch, batch_of_texts
from trainables.data.records import LabelSchema
from trainables.encoders.about import ABOUT, LEARNT, MOMENTS, NAMES, WEIGHTS, About, about_of
from trainables.encoders.hub import PublicEncoder, public_encoder
from trainables.encoders.identity import digest_of
from trainables.encoders.pieces import (
    PieceTable,
    WordCutter,
    first_inside,
    tokenizer_in,
    windows,
    word_cutter,
)
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
    for low in range(0, len(ordered), _AT_ONCE):
        yield batch_of_texts(ordered[low : low + _AT_ONCE], encoder.feature_table)


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
        lengths = batch.inputs["piece_lengths"].tolist()
        rows, owners = windows(batch.inputs["pieces"], lengths, self.public.positions)
        states: list[Tensor] = [torch.empty(0)] * len(rows)  # [layers + 1, pieces, D] each
        places = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        for length, equal in groupby(places, key=lambda place: len(rows[place])):
            same, many = list(equal), max(1, _PIECES_AT_ONCE // length)
            for some in (same[low : low + many] for low in range(0, len(same), many)):
                found = self._run(torch.stack([rows[place] for place in some]))
                for place, own in zip(some, found.unbind(1), strict=True):
                    states[place] = own
        sums = torch.zeros(len(states[0]), len(lengths), states[0].shape[2])
        counts = torch.zeros(len(lengths), 1)
        for record, own in zip(owners, states, strict=True):
            sums[:, record] += own.sum(1)
            counts[record] += own.shape[1]
        inner = torch.cat([own[:, 1:-1] for own in states], 1)
        tokens = inner.index_select(1, first_inside(batch))
        return LayerStates(tuple(tokens), tuple(sums / counts))

    def _run(self, ids: Tensor) -> Tensor:
        """[layers + 1, B, L, D] of rows of equal length."""
        found = self.model(
            input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True
        )
        return torch.stack(found.hidden_states)


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
