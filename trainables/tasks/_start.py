"""Initial weights from noised releases, where `privacy.start` selects them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

import torch

from trainables.data.batches import Loader, PackedBatch
from trainables.privacy import start
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.noise import SecretKey
from trainables.privacy.population import Ids
from trainables.system import checkpoint
from trainables.system.communication import Communicator

_STEEPNESS = 3.0  # scale of the initial rows over the means of classes; chosen on SNIPS
_MAX_TOKENS = 4_096  # of one pass, which bounds memory and changes no figure


@runtime_checkable
class StartsFromClasses(Protocol):
    """A model whose heads can be initialised from sums over the classes of its labels."""

    @property
    def constant(self) -> float:
        """The last entry of every row, above 0."""

    def labelled(self, batch: PackedBatch) -> start.Labelled:
        """The rows of a batch and their classes."""

    def start_from(self, intents: torch.Tensor, tags: torch.Tensor) -> None:
        """Set the weights so that scores are those of `intents` [I, E] and `tags` [K, D]."""


def set_start(
    model: torch.nn.Module,
    mechanism: Mechanism,
    *,
    loader: Loader,
    ids: Ids,
    key: SecretKey,
    trial_id: str,
    folder: Path,
    comm: Communicator,
) -> None:
    """Release the mechanism's sums over the training records `ids` and set the weights from them.

    Does nothing where training resumes from a checkpoint, whose weights include the release.
    """
    noise = mechanism.start_noise
    if not noise or comm.broadcast(checkpoint.is_there(folder) if comm.rank == 0 else None):
        return
    assert isinstance(model, StartsFromClasses)
    # One process reads and draws, so that all have the same initial weights.
    found = None
    if comm.rank == 0:
        found = _rows(model, noise, loader=loader, ids=ids, key=key, trial_id=trial_id)
    intents, tags = comm.broadcast(found)
    model.start_from(intents, tags)


def _rows(
    model: StartsFromClasses,
    noise: dict[str, float],
    *,
    loader: Loader,
    ids: Ids,
    key: SecretKey,
    trial_id: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """[intents, E] and [tags, D]: the rows from the noised sums."""
    counts, sums = _sums(model, noise, loader=loader, ids=ids)
    num_intents = len(sums[0])
    rows = [torch.zeros_like(part) for part in sums]
    if "means" in noise:
        std = noise["means"]
        flat = torch.cat([part.flatten() for part in sums])
        released = start.add_noise(flat, std=std, key=key, name="means", trial_id=trial_id)
        parts = released.tensor_split([sums[0].numel()])
        rows = [
            _STEEPNESS * start.contrasts(part.view_as(own), constant=model.constant, std=std)
            for part, own in zip(parts, sums, strict=True)
        ]
    if "counts" in noise:
        std = noise["counts"]
        released = start.add_noise(counts, std=std, key=key, name="counts", trial_id=trial_id)
        for row, part in zip(rows, released.tensor_split([num_intents]), strict=True):
            row[:, -1] = start.log_shares(part, std=std) / model.constant
    return rows[0], rows[1]


def _sums(
    model: StartsFromClasses, noise: dict[str, float], *, loader: Loader, ids: Ids
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Counts [I + K] and sums of rows [I, E] and [K, D] over all records, without noise."""
    counts: torch.Tensor | None = None
    sums: list[torch.Tensor] = []
    for _, batch in loader.evaluation_batches(ids, max_tokens=_MAX_TOKENS):
        labelled = model.labelled(batch)
        found = start.sums_of_means(labelled)
        if counts is None:
            counts = start.counts_of(labelled).sum(0)
            sums = [part.clone() for part in found]
            continue
        counts += start.counts_of(labelled).sum(0)
        for total, part in zip(sums, found, strict=True):
            total += part
    assert counts is not None  # a training part has a record
    return counts, sums
