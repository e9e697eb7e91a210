"""Public moments of an encoder's rows: read from disk, or computed for an encoder without them.

An encoder of `sweep pretrain` has moments of its pretraining corpora. For any other they are
computed from made utterances, which contain no personal data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainables import catalogue
from trainables.config import data_config
from trainables.data.batches import PackedBatch
from trainables.data.corpus import make_once
from trainables.encoders.about import MOMENTS
from trainables.encoders.rows import Moments, MomentSums
from trainables.errors import InvalidData

if TYPE_CHECKING:
    from trainables.encoders.recipe import Encoder

BothMoments = tuple[Moments, Moments]  # of tokens, of records
_KINDS = ("tokens", "records")
_MADE = ("health", "video")
_EACH = 1_000  # made utterances of each
MADE_UTTERANCES = f"utterances of the made corpora {' and '.join(_MADE)}"
_AT_ONCE = 100


def save_moments(moments: BothMoments, file: Path, *, layers: Sequence[int] = ()) -> None:
    """Write moments; `layers` names their layers where the folder does not."""
    packed = {"layers": torch.tensor(list(layers))} if layers else {}
    for kind, each in zip(_KINDS, moments, strict=True):
        packed |= _pack(kind, each)
    save_file(packed, str(file))


def load_moments(file: Path) -> BothMoments:
    """Read the file of `save_moments`.

    Raises: OSError, ValueError, KeyError or SafetensorError where it is missing or damaged.
    """
    packed = load_file(str(file))
    return _unpack("tokens", packed), _unpack("records", packed)


def public_moments(
    encoder: Encoder, layers: Sequence[int], *, place: Path, digest: str, cache_dir: Path | None
) -> BothMoments:
    """The moments of `layers`: those in `place`, the encoder's folder, else those of made
    utterances, computed once for all trials that share `cache_dir`.

    Raises: InvalidData where a file of them is damaged.
    """
    kept = place / MOMENTS
    try:
        if kept.is_file() and load_file(str(kept))["layers"].tolist() == list(layers):
            return load_moments(kept)
        if cache_dir is None:
            return _round_trip(_made_moments(encoder, layers))
        name = f"moments-{digest[:24]}-{'-'.join(map(str, layers))}"

        def make(folder: Path) -> None:
            save_moments(_made_moments(encoder, layers), folder / MOMENTS, layers=layers)

        kept = make_once(cache_dir, name, make) / MOMENTS
        return load_moments(kept)
    except (OSError, ValueError, KeyError, SafetensorError):
        raise InvalidData(
            f"expected the moments of an encoder in {kept}, got a damaged file; delete it"
        ) from None


def _made_moments(encoder: Encoder, layers: Sequence[int]) -> BothMoments:
    """Moments of the states of made utterances."""
    tokens, records = MomentSums(), MomentSums()
    for batch in _made_batches(encoder):
        states = encoder.layer_states(batch)
        tokens.add([states.tokens[k] for k in layers])
        records.add([states.records[k] for k in layers])
    return tokens.moments(), records.moments()


def _made_batches(encoder: Encoder) -> Iterator[PackedBatch]:
    texts: list[tuple[str, ...]] = []
    for name in _MADE:
        config = data_config(name=name, num_utterances=_EACH)
        made = catalogue.entry("datasets", name).read(Path(), config=config)
        texts += [utterance.tokens for utterance in made]
    texts = sorted(set(texts), key=lambda text: (len(text), text))
    types = sorted({word for text in texts for word in text})
    place = {word: number for number, word in enumerate(types)}
    table = encoder.feature_table(types)
    for low in range(0, len(texts), _AT_ONCE):
        some = texts[low : low + _AT_ONCE]
        ids = np.array([place[word] for text in some for word in text], dtype=np.int32)
        lengths = np.array([len(text) for text in some], dtype=np.int64)
        yield PackedBatch.unlabelled(table.collate(ids, lengths), torch.from_numpy(lengths))


def _round_trip(moments: BothMoments) -> BothMoments:
    """The moments after a round trip through the file."""
    tokens, records = (
        _unpack(kind, _pack(kind, each)) for kind, each in zip(_KINDS, moments, strict=True)
    )
    return tokens, records


def _pack(kind: str, moments: Moments) -> dict[str, Tensor]:
    """The covariance as the upper triangle of float16, in units of its largest entry. The rounding
    error is far below the ridge of whitening."""
    size = len(moments.mean)
    upper = moments.covariance[np.triu_indices(size)]
    unit = float(np.abs(upper).max()) or 1.0
    return {
        f"{kind}.mean": torch.from_numpy(moments.mean.astype(np.float32)),
        f"{kind}.covariance": torch.from_numpy((upper / unit).astype(np.float16)),
        f"{kind}.unit": torch.tensor(unit, dtype=torch.float64),
        f"{kind}.widths": torch.tensor(moments.widths),
        f"{kind}.count": torch.tensor(moments.count),
    }


def _unpack(kind: str, packed: dict[str, Tensor]) -> Moments:
    mean = packed[f"{kind}.mean"].double().numpy()
    size = len(mean)
    covariance = np.zeros((size, size))
    upper = packed[f"{kind}.covariance"].double().numpy() * float(packed[f"{kind}.unit"])
    covariance[np.triu_indices(size)] = upper
    covariance = covariance + covariance.T - np.diag(np.diag(covariance))
    widths = tuple(int(width) for width in packed[f"{kind}.widths"])
    if sum(widths) != size:
        raise ValueError("expected widths that sum to the mean's size")
    return Moments(mean, covariance, widths, int(packed[f"{kind}.count"]))
