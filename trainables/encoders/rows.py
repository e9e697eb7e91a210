"""Features of a linear head from the states of an encoder's layers, and what is public in them.

Each layer's row is centred over its entries and scaled to norm 1. The chosen layers are
concatenated, public moments whiten the result, and the final row has norm 1: a fixed function of
one record and of public numbers.

Names of labels score tokens and records before any private record is read. The encoder reads a name
like an utterance; its vector is e(name) of norm 1. A token x scores tag `B-name` as
u_B.x + e(name)^T A x and `O` as u_O.x; a record r scores an intent as e(name)^T B r. The maps are
learnt on public corpora with other labels (Athiwaratkun et al. 2020, arXiv 2009.13272).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainables.data.batches import FeatureTable, PackedBatch, batch_of_texts
from trainables.data.corpus import make_once
from trainables.data.records import LabelSchema
from trainables.encoders.about import MOMENTS
from trainables.errors import InvalidData

Doubles = NDArray[np.float64]
SHRINKAGE = 0.3  # default shrinkage of the public covariance
BIAS = 0.3  # the constant entry of a row that names score
_TINY = 1e-12
_KINDS = ("tokens", "records")
_MARKS = ("O", "B", "I")  # the first rows of `NameScores.tokens`
_MARK_WEIGHT = 0.7  # weight of B or I relative to the name, whose vector has norm 1
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")


class LayerStates(NamedTuple):
    """The states of each layer of an encoder for a batch, the lowest first.

    `tokens[k]` [T, D_k], rows in the batch's order; `records[k]` [B, E_k], a mean over the record's
    rows.
    """

    tokens: tuple[Tensor, ...]
    records: tuple[Tensor, ...]


class Encoder(Protocol):
    """The part of a model that computes features."""

    def feature_table(self, types: Sequence[str]) -> FeatureTable:
        """The features of each distinct token."""

    def layer_states(self, batch: PackedBatch) -> LayerStates:
        """The states of every layer for a batch."""


class Whitening(NamedTuple):
    """x -> (x - mean) @ root, of a mean [D] and a symmetric root [D, D]."""

    mean: Tensor
    root: Tensor


class RowsOf(NamedTuple):
    """Features of norm 1: `tokens` [T, D] and `records` [B, E]."""

    tokens: Tensor
    records: Tensor


@dataclass(frozen=True, eq=False)
class Recipe:
    """An encoder, its layers, the whitening of tokens and of records."""

    encoder: Encoder
    layers: tuple[int, ...]
    white: tuple[Whitening, Whitening]

    @torch.no_grad()
    def of_batch(self, batch: PackedBatch) -> RowsOf:
        """The rows of a batch of the encoder."""
        return self.of_states(self.encoder.layer_states(batch))

    def of_states(self, states: LayerStates) -> RowsOf:
        """The rows from the encoder's states of a batch."""
        tokens, records = (
            features(join_states([each[k] for k in self.layers]), white)
            for each, white in zip(states, self.white, strict=True)
        )
        return RowsOf(tokens, records)

    def of_names(self, names: Sequence[str]) -> Tensor:
        """[n, E]: record rows of names, each encoded as an utterance of its words."""
        texts = [words_of(name) for name in names]
        return self.of_batch(batch_of_texts(texts, self.encoder.feature_table)).records


def join_states(states: Sequence[Tensor]) -> Tensor:
    """Layer states [n, D_k] -> [n, sum of D_k], each centred over its entries and of norm 1."""
    parts = []
    for state in states:
        centred = state.float() - state.float().mean(dim=1, keepdim=True)
        parts.append(F.normalize(centred, dim=1, eps=_TINY))
    return torch.cat(parts, dim=1)


def with_neighbours(rows: Tensor, near: Tensor, lengths: Tensor, *, weight: float) -> Tensor:
    """Rows of tokens [T, D], each with the rows `near` [T, E] of the token before and of the one
    behind in its record, times `weight`: [T, D + 2 E], of norm 1 at most.

    `lengths` int64[B]. A token without such a neighbour has zeros there.

    >>> near = torch.tensor([[1.0], [2.0], [3.0]])
    >>> with_neighbours(near, near, torch.tensor([2, 1]), weight=1.0).mul(3**0.5).round().tolist()
    [[1.0, 0.0, 2.0], [2.0, 1.0, 0.0], [3.0, 0.0, 0.0]]
    """
    ends = lengths.cumsum(0)
    before, behind = near.roll(1, 0), near.roll(-1, 0)
    before[ends - lengths] = 0.0
    behind[ends - 1] = 0.0
    joined = torch.cat([rows, weight * before, weight * behind], dim=1)
    scale: float = (1 + 2 * weight**2) ** -0.5
    return joined * scale


def make_recipe(
    encoder: Encoder,
    layers: tuple[int, ...],
    moments: BothMoments,
    *,
    shrinkage: float = SHRINKAGE,
) -> Recipe:
    """The recipe of `layers` of these moments. Scores of names were learnt on the default."""
    tokens, records = (whitening(each, shrinkage=shrinkage) for each in moments)
    return Recipe(encoder, layers, (tokens, records))


def whitening(moments: Moments, *, shrinkage: float) -> Whitening:
    """(S + shrinkage * tr(S) / D * I)^(-1/2) of public moments."""
    values, vectors = np.linalg.eigh(moments.covariance)
    values = np.clip(values, 0.0, None)
    scale = (values + shrinkage * values.mean()) ** -0.5
    return Whitening(
        mean=torch.from_numpy(moments.mean.astype(np.float32)),
        root=torch.from_numpy(((vectors * scale) @ vectors.T).astype(np.float32)),
    )


def features(rows: Tensor, white: Whitening) -> Tensor:
    """Joined rows [n, D] -> [n, D], whitened and of norm 1."""
    return F.normalize((rows - white.mean) @ white.root, dim=1, eps=_TINY)


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
    """Mean and covariance of the joined rows of `layers`, added up in float64."""
    sums: list[tuple[int, Doubles, Doubles]] = [(0, np.zeros(1), np.zeros(1))] * len(_KINDS)
    widths: list[tuple[int, ...]] = [()] * len(_KINDS)
    for states in batches:
        for place, (of_kind, (count, total, squares)) in enumerate(zip(states, sums, strict=True)):
            chosen = [of_kind[k] for k in layers]
            widths[place] = tuple(state.shape[1] for state in chosen)
            rows = join_states(chosen).numpy().astype(np.float64)
            sums[place] = (count + len(rows), total + rows.sum(0), squares + rows.T @ rows)
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


def words_of(name: str) -> tuple[str, ...]:
    """The words of a label's name, lower-cased.

    >>> words_of("toloc.city_name"), words_of("AddToPlaylist"), words_of("__")
    (('toloc', 'city', 'name'), ('add', 'to', 'playlist'), ('none',))
    """
    return tuple(word.lower() for word in _WORD.findall(_CAMEL.sub(" ", name))) or ("none",)


@dataclass(frozen=True, eq=False)
class NameScores:
    """Public maps from features to scores of names.

    `projection` [E, N] turns the encoder's row of a name into its vector; `tokens` [3 + N, D + 1]
    (O, B, I, then A) and `records` [N, E + 1] (B) read rows with a constant `BIAS` behind them.
    """

    projection: Tensor
    tokens: Tensor
    records: Tensor

    def vectors(self, rows: Tensor) -> Tensor:
        """The encoder's rows of names [n, E] -> their vectors [n, N], of norm 1."""
        return F.normalize(rows @ self.projection, dim=1)

    def of_tokens(self, rows: Tensor) -> Tensor:
        """Rows of tokens [T, D] -> [T, 3 + N]; scores are the product with `tag_names`."""
        return with_bias(rows) @ self.tokens.t()

    def of_records(self, rows: Tensor) -> Tensor:
        """Rows of records [B, E] -> [B, N]; scores are the product with vectors of names."""
        return with_bias(rows) @ self.records.t()


def with_bias(rows: Tensor) -> Tensor:
    """`rows` [n, D] with a constant last entry."""
    return F.pad(rows, (0, 1), value=BIAS)


def tag_names(schema: LabelSchema, vectors: Tensor) -> Tensor:
    """[tags, 3 + N]: the mark of each tag beside the vector [N] of its slot, in `schema`'s order.

    >>> import torch
    >>> schema = LabelSchema(intents=("a",), slots=("city",), source="doc")
    >>> tag_names(schema, torch.ones(1, 2)).tolist()[0]
    [1.0, 0.0, 0.0, 0.0, 0.0]
    """
    found = vectors.new_zeros(len(schema.tags), len(_MARKS) + vectors.shape[1])
    slots = {slot: row for row, slot in enumerate(schema.slots)}
    for row, tag in enumerate(schema.tags):
        mark, _, slot = tag.partition("-")
        found[row, _MARKS.index(mark)] = _MARK_WEIGHT if slot else 1.0
        if slot:
            found[row, len(_MARKS) :] = vectors[slots[slot]]
    return found
