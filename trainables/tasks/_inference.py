"""One inference pass over records: labels for the metrics, and with them signals for
attacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.attacks import features_of
from trainables.data.batches import Loader
from trainables.data.bio import slots_lenient
from trainables.data.records import NO_INTENT, Frame, LabelSchema
from trainables.models.nlu.base import NluModel, Predictions
from trainables.system.communication import Communicator

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
# Tokens of one pass, which bound memory and change no figure.
_MAX_TOKENS = 4_096
# The columns of no record: intents, features, log-confidences.
_NO_RECORDS = np.zeros(0, dtype=np.int64), np.zeros((0, 8)), np.zeros(0)


@dataclass(frozen=True, eq=False)
class Labels:
    """The predicted labels of n records, in the order of the request.

    `intents` int64[n], -1 for a record whose scores are not finite, which has no label;
    `tags` has one int64[length] a record.
    """

    intents: Integers
    tags: list[Integers]

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
    """Labels, and what attacks read of each record (see `attacks.Signals`): `features`
    float64[n, 8], and `log_confidence` float64[n], minus the intent's loss and the mean
    loss of a tag, in nats.
    """

    features: Floats
    log_confidence: Floats

    def take(self, places: Integers) -> Inference:
        """The records at `places`, in that order."""
        return Inference(
            self.intents[places],
            [self.tags[place] for place in places],
            self.features[places],
            self.log_confidence[places],
        )


def best_labels(
    model: NluModel, loader: Loader, ids: Integers, *, comm: Communicator
) -> Labels:
    """The labels of `infer`, without the inputs of attacks."""
    tags, [intents, *_] = _gather(model, loader, ids, comm=comm, for_attacks=False)
    return Labels(intents, tags)


def infer(
    model: NluModel, loader: Loader, ids: Integers, *, comm: Communicator
) -> Inference:
    """The model's predictions for the records `ids` int64[n], in their order; each
    process computes a share and gets the whole.

    A record's figures do not depend on its process or batch (up to float rounding).
    """
    tags, columns = _gather(model, loader, ids, comm=comm, for_attacks=True)
    intents, features, log_confidence = columns
    return Inference(intents, tags, features, log_confidence)


def _gather(
    model: NluModel,
    loader: Loader,
    ids: Integers,
    *,
    comm: Communicator,
    for_attacks: bool,
) -> tuple[list[Integers], list[NDArray[Any]]]:
    """The tags of each record of `ids`, and as columns the intents and, `for_attacks`,
    the features and the log-confidences.
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
            predicted = model.predict(batch.to(device))
            tags = np.split(predicted.tag_paths.cpu().numpy(), np.cumsum(lengths)[:-1])
            columns = [predicted.intents.cpu().numpy()]
            if for_attacks:
                columns += _inputs_of_attacks(predicted, lengths)
            share.append((mine[found], tags, columns))
    every = [each for share in comm.gather(share) for each in share]
    places = np.concatenate([mine[:0], *(places for places, _, _ in every)])
    order = np.argsort(places)
    if not np.array_equal(places[order], np.arange(len(ids))):
        raise AssertionError("every record must be inferred exactly once")
    in_turn = [path for _, tags, _ in every for path in tags]
    joined = zip(_NO_RECORDS, *(columns for _, _, columns in every), strict=False)
    return [in_turn[place] for place in order], [
        np.concatenate(column)[order] for column in joined
    ]


def _inputs_of_attacks(
    predicted: Predictions, lengths: Integers
) -> tuple[Floats, Floats]:
    """The features [B, 8] and the log-confidences [B] of records of these lengths."""
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
    return features, -losses.astype(np.float64)
