"""Public moments of an encoder's rows: read from disk, or computed for an encoder without them.

An encoder of `sweep pretrain` has moments of its pretraining corpora. For any other they are
computed from made utterances, which contain no personal data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainables.data.corpus import make_once
from trainables.encoders.about import MOMENTS
from trainables.encoders.rows import LayerStates, join_states
from trainables.errors import InvalidData

Doubles = NDArray[np.float64]
_KINDS = ("tokens", "records")


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean [D] and covariance [D, D] of joined rows of all layers, from `count` public rows.

    `widths` are those of the layers, their sum is D.
    """

    mean: Doubles
    covariance: Doubles
    widths: tuple[int, ...]
    count: int

    def of(self, layers: Sequence[int]) -> Moments:
        """The moments of the chosen layers alone, in that order."""
        ends = np.cumsum(self.widths)
        where = np.concatenate([np.arange(ends[k] - self.widths[k], ends[k]) for k in layers])
        widths = tuple(self.widths[k] for k in layers)
        return Moments(self.mean[where], self.covariance[np.ix_(where, where)], widths, self.count)


BothMoments = tuple[Moments, Moments]  # of tokens, of records


def moments_of(batches: Iterable[LayerStates], layers: Sequence[int]) -> BothMoments:
    """Mean and covariance of the joined rows of `layers`, added up in float64.

    Raises: ValueError without any batch.
    """
    sums: list[tuple[int, Doubles, Doubles]] = [(0, np.zeros(1), np.zeros(1))] * len(_KINDS)
    widths: list[tuple[int, ...]] = [()] * len(_KINDS)
    for states in batches:
        for place, (of_kind, (count, total, squares)) in enumerate(zip(states, sums, strict=True)):
            chosen = [of_kind[k] for k in layers]
            widths[place] = tuple(state.shape[1] for state in chosen)
            rows = join_states(chosen).numpy().astype(np.float64)
            sums[place] = (count + len(rows), total + rows.sum(0), squares + rows.T @ rows)
    if not sums[0][0]:
        raise ValueError("expected at least one row")
    tokens, records = (
        Moments(total / n, squares / n - np.outer(total / n, total / n), each, n)
        for (n, total, squares), each in zip(sums, widths, strict=True)
    )
    return tokens, records


def save_moments(moments: BothMoments, file: Path, *, layers: Sequence[int] = ()) -> None:
    """Write moments; `layers` names their layers where the folder does not."""
    packed = {"layers": torch.tensor(list(layers))} if layers else {}
    save_file(packed | _pack(moments), str(file))


def load_moments(file: Path) -> BothMoments:
    """Read the file of `save_moments`.

    Raises: OSError, ValueError, KeyError or SafetensorError where it is missing or damaged.
    """
    return _unpack(load_file(str(file)))


def public_moments(
    make: Callable[[], BothMoments],
    layers: Sequence[int],
    *,
    place: Path,
    digest: str,
    cache_dir: Path | None,
) -> BothMoments:
    """The moments of `layers`: those in `place`, the encoder's folder, else those that `make`
    computes, once for all trials that share `cache_dir`.

    Raises: InvalidData where a file of them is damaged.
    """
    kept = place / MOMENTS
    try:
        own = load_file(str(kept)) if kept.is_file() else {}
        if own and own["layers"].tolist() == list(layers):
            return _unpack(own)
        if cache_dir is None:
            return _unpack(_pack(make()))
        name = f"moments-{digest[:24]}-{'-'.join(map(str, layers))}"
        folder = make_once(
            cache_dir, name, lambda new: save_moments(make(), new / MOMENTS, layers=layers)
        )
        kept = folder / MOMENTS
        return load_moments(kept)
    except (OSError, ValueError, KeyError, SafetensorError):
        raise InvalidData(
            f"expected the moments of an encoder in {kept}, got a damaged file; delete it"
        ) from None


def _pack(moments: BothMoments) -> dict[str, Tensor]:
    """The covariance as the upper triangle of float16, in units of its largest entry. The rounding
    error is far below the ridge of whitening."""
    packed: dict[str, Tensor] = {}
    for kind, each in zip(_KINDS, moments, strict=True):
        upper = each.covariance[np.triu_indices(len(each.mean))]
        unit = float(np.abs(upper).max()) or 1.0
        packed |= {
            f"{kind}.mean": torch.from_numpy(each.mean.astype(np.float32)),
            f"{kind}.covariance": torch.from_numpy((upper / unit).astype(np.float16)),
            f"{kind}.unit": torch.tensor(unit, dtype=torch.float64),
            f"{kind}.widths": torch.tensor(each.widths),
            f"{kind}.count": torch.tensor(each.count),
        }
    return packed


def _unpack(packed: dict[str, Tensor]) -> BothMoments:
    found = []
    for kind in _KINDS:
        mean = packed[f"{kind}.mean"].double().numpy()
        upper = packed[f"{kind}.covariance"].double().numpy() * float(packed[f"{kind}.unit"])
        covariance = np.zeros((len(mean), len(mean)))
        covariance[np.triu_indices(len(mean))] = upper
        covariance = covariance + covariance.T - np.diag(np.diag(covariance))
        widths = tuple(int(width) for width in packed[f"{kind}.widths"])
        if sum(widths) != len(mean):
            raise ValueError("expected widths that sum to the mean's size")
        found.append(Moments(mean, covariance, widths, int(packed[f"{kind}.count"])))
    tokens, records = found
    return tokens, records
