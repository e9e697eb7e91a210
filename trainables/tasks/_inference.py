"""One inference pass over records: labels for the metrics, and with them signals for
attacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trainables.attacks import features_of
from trainables.data.batches import Loader, PackedBatch
from trainables.data.bio import slots_lenient
from trainables.data.records import NO_INTENT, Frame, LabelSchema
from trainables.models.nlu.base import NluModel
from trainables.system.communication import Communicator

# Tokens of one pass, which bound memory and change no figure.
_MAX_TOKENS = 4_096
_NO_INTENTS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Labels:
    """The predicted labels of n records, in the order of the request.

    `intents` int64[n], -1 for a record whose scores are not finite, which has no label;
    `tags` has one int64[length] a record.
    """

    intents: NDArray[np.int64]
    tags: list[NDArray[np.int64]]

    def tag_names(self, schema: LabelSchema) -> list[tuple[str, ...]]:
        """BIO tags of each record."""
        names = schema.tags
        return [
            tuple(names[tag] if intent >= 0 else "O" for tag in tags)
            for intent, tags in zip(self.intents, self.tags, strict=True)
        ]

    def frames(self, schema: LabelSchema) -> list[Frame]:
        """Intent and slots of each record."""
        return [
            Frame(
                schema.intents[intent] if intent >= 0 else NO_INTENT,
                slots_lenient(tags),
            )
            for intent, tags in zip(self.intents, self.tag_names(schema), strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Inference(Labels):
    """Labels, and the inputs of attacks (`attacks.Signals`): `features` [n, 8] and
    `log_confidence` [n].
    """

    features: NDArray[np.float64]
    log_confidence: NDArray[np.float64]

    def take(self, places: NDArray[np.int64]) -> Inference:
        """The records at `places`, in that order."""
        return Inference(
            intents=self.intents[places],
            tags=[self.tags[place] for place in places],
            features=self.features[places],
            log_confidence=self.log_confidence[places],
        )


def best_labels(
    model: NluModel, loader: Loader, ids: NDArray[np.int64], *, comm: Communicator
) -> Labels:
    """The labels of `infer`, without the inputs of attacks."""

    def read(
        batch: PackedBatch, lengths: NDArray[np.int64]
    ) -> tuple[Tensor, NDArray[Any]]:
        predicted = model.predict(batch)
        return predicted.tag_paths, predicted.intents.cpu().numpy()

    tags, [intents] = _gather(read, model, loader, ids, comm=comm, empty=(_NO_INTENTS,))
    return Labels(intents=intents, tags=tags)


def infer(
    model: NluModel, loader: Loader, ids: NDArray[np.int64], *, comm: Communicator
) -> Inference:
    """The model's predictions for `ids`; each process computes a share and gets the
    whole.

    A record's figures do not depend on its process or batch (up to float rounding).
    """

    def read(
        batch: PackedBatch, lengths: NDArray[np.int64]
    ) -> tuple[Tensor, *tuple[NDArray[Any], ...]]:
        predicted = model.predict(batch)
        features = features_of(
            intent_log_probs=predicted.intent_log_probs.cpu().numpy(),
            token_marginals=predicted.token_marginals.cpu().numpy(),
            lengths=lengths,
            path_log_prob=predicted.path_log_prob.cpu().numpy(),
        )
        losses = (
            predicted.intent_losses.cpu().numpy()
            + predicted.tag_losses.cpu().numpy() / lengths
        )
        intents = predicted.intents.cpu().numpy()
        return predicted.tag_paths, intents, features, -losses.astype(np.float64)

    empty = (_NO_INTENTS, np.zeros((0, 8)), np.zeros(0))
    tags, columns = _gather(read, model, loader, ids, comm=comm, empty=empty)
    intents, features, log_confidence = columns
    return Inference(
        intents=intents, tags=tags, features=features, log_confidence=log_confidence
    )


def _gather(
    read: Callable[
        [PackedBatch, NDArray[np.int64]], tuple[Tensor, *tuple[NDArray[Any], ...]]
    ],
    model: NluModel,
    loader: Loader,
    ids: NDArray[np.int64],
    *,
    comm: Communicator,
    empty: Sequence[NDArray[Any]],
) -> tuple[list[NDArray[np.int64]], list[NDArray[Any]]]:
    """The tags of each record of `ids`, and the other columns that `read` returns for a
    batch and its lengths; `empty` are these columns without records.
    """
    model.eval()
    device = next(model.parameters()).device
    mine = np.arange(comm.rank, len(ids), comm.world_size)
    share = []
    with model.watched(deep=True):
        for found, batch in loader.evaluation_batches(
            ids[mine], max_tokens=_MAX_TOKENS
        ):
            lengths = batch.lengths.cpu().numpy()
            paths, *columns = read(batch.to(device), lengths)
            tags = np.split(paths.cpu().numpy(), np.cumsum(lengths)[:-1])
            share.append((mine[found], tags, columns))
    every = [each for share in comm.gather(share) for each in share]
    places = np.concatenate([mine[:0], *(places for places, _, _ in every)])
    order = np.argsort(places)
    if not np.array_equal(places[order], np.arange(len(ids))):
        raise AssertionError("every record must be inferred exactly once")
    in_turn = [path for _, tags, _ in every for path in tags]
    return [in_turn[place] for place in order], [
        np.concatenate([first, *(columns[number] for _, _, columns in every)])[order]
        for number, first in enumerate(empty)
    ]
