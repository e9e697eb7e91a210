"""One inference pass over records: labels for the metrics, and with them signals for attacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainables.attacks import features_of
from trainables.data.batches import Loader
from trainables.data.bio import slots_lenient
from trainables.data.records import Frame, LabelSchema
from trainables.models._nlu import NluModel
from trainables.system.communication import Communicator

# Tokens of one pass, which bound memory and change no figure.
_MAX_TOKENS = 4_096


@dataclass(frozen=True, eq=False)
class Labels:
    """What a model takes n records for, in the order in which they were requested.

    `intents` int64[n]; `tags` has one int64[length] a record.
    """

    intents: NDArray[np.int64]
    tags: list[NDArray[np.int64]]

    def tag_names(self, schema: LabelSchema) -> list[tuple[str, ...]]:
        """BIO tags of each record."""
        names = schema.tags
        return [tuple(names[tag] for tag in tags) for tags in self.tags]

    def frames(self, schema: LabelSchema) -> list[Frame]:
        """Intent and slots of each record."""
        return [
            Frame(schema.intents[intent], slots_lenient(tags))
            for intent, tags in zip(self.intents, self.tag_names(schema), strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Inference(Labels):
    """Labels, and what an attack reads (`attacks.Signals`): `features` [n, 8] and `log_confidence`
    [n].
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
    """The labels that `infer` finds, without what only an attack reads."""
    model.eval()
    device = next(model.parameters()).device
    mine = np.arange(comm.rank, len(ids), comm.world_size)
    places, intents, tags = [], [], []
    for found, batch in loader.evaluation_batches(ids[mine], max_tokens=_MAX_TOKENS):
        said = model.best_labels(batch.to(device))
        lengths = batch.lengths.cpu().numpy()
        places.append(mine[found])
        intents.append(said.intents.cpu().numpy())
        tags.extend(np.split(said.tag_paths.cpu().numpy(), np.cumsum(lengths)[:-1]))
    share = (_concatenate(places, np.int64), _concatenate(intents, np.int64), tags)
    shares = comm.gather(share)
    order = _order(shares, len(ids))
    return Labels(
        intents=np.concatenate([share[1] for share in shares])[order],
        tags=_in_order(shares, order),
    )


def infer(
    model: NluModel, loader: Loader, ids: NDArray[np.int64], *, comm: Communicator
) -> Inference:
    """The model's predictions for `ids`; each process computes a share and gets the whole.

    A record's figures do not depend on its process or batch (up to float rounding).
    """
    model.eval()
    device = next(model.parameters()).device
    mine = np.arange(comm.rank, len(ids), comm.world_size)
    places, intents, tags, features, confidence = [], [], [], [], []
    for found, batch in loader.evaluation_batches(ids[mine], max_tokens=_MAX_TOKENS):
        said = model.predict(batch.to(device))
        lengths = batch.lengths.cpu().numpy()
        log_probs = said.intent_log_probs.cpu().numpy()
        places.append(mine[found])
        intents.append(log_probs.argmax(axis=1))
        tags.extend(np.split(said.tag_paths.cpu().numpy(), np.cumsum(lengths)[:-1]))
        features.append(
            features_of(
                intent_log_probs=log_probs,
                token_marginals=said.token_marginals.cpu().numpy(),
                lengths=lengths,
                path_log_prob=said.path_log_prob.cpu().numpy(),
            )
        )
        losses = said.intent_losses.cpu().numpy() + said.tag_losses.cpu().numpy() / lengths
        confidence.append(-losses.astype(np.float64))
    share = (
        _concatenate(places, np.int64),
        _concatenate(intents, np.int64),
        tags,
        np.concatenate(features) if features else np.zeros((0, 8)),
        _concatenate(confidence, np.float64),
    )
    return _merge(comm.gather(share), len(ids))


def _concatenate(parts: Sequence[NDArray[np.generic]], dtype: type) -> NDArray[np.generic]:
    return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype=dtype)


def _merge(shares: list[tuple], size: int) -> Inference:  # type: ignore[type-arg]  # see `infer`
    order = _order(shares, size)
    return Inference(
        intents=np.concatenate([share[1] for share in shares])[order],
        tags=_in_order(shares, order),
        features=np.concatenate([share[3] for share in shares])[order],
        log_confidence=np.concatenate([share[4] for share in shares])[order],
    )


def _order(shares: list[tuple], size: int) -> NDArray[np.int64]:  # type: ignore[type-arg]
    """Where each record stands among the processes' shares."""
    places = np.concatenate([share[0] for share in shares])
    order = np.argsort(places)
    if not np.array_equal(places[order], np.arange(size)):
        raise AssertionError("every record must be inferred exactly once")
    return order


def _in_order(shares: list[tuple], order: NDArray[np.int64]) -> list[NDArray[np.int64]]:  # type: ignore[type-arg]
    tags = [tags for share in shares for tags in share[2]]
    return [tags[place] for place in order]
