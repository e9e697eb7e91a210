"""The base of intent-and-slot models: two heads, a CRF, losses and predictions by
record.

A model adds `encode`, from packed inputs to one vector a token and one a record.
Nothing in a model mixes records (no batch normalisation), so per-record losses and
scores do not depend on what else is in the batch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables.data.batches import Loader
from trainables.dp.layers.crf.layer import LinearChainCrf
from trainables.dp.layers.crf.statistics import forward_backward, path_scores
from trainables.dp.layers.dropout import DropsByRecord
from trainables.dp.layers.linear import Linear
from trainables.dp.layers.packing import TimeMajor, one_row_each

if TYPE_CHECKING:
    from pathlib import Path

    from trainables.data.batches import FeatureTable, PackedBatch
    from trainables.data.corpus import Corpus
    from trainables.data.records import LabelSchema

_NEVER = -1e4  # score of a transition that BIO does not allow


@dataclass(frozen=True, eq=False)
class Encoded:
    """The vectors that the heads read: `tokens` [T, D] in the time-major order of
    `layout`, and `sentence` [B, E], one a record, in the batch's order.
    """

    tokens: Tensor
    sentence: Tensor
    layout: TimeMajor


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model takes a batch for, in the batch's order: `intents` int64[B], -1 for
    a record whose scores are not finite, and `tag_paths` int64[T], packed.

    They were chosen by `intent_log_probs` [B, K], `path_log_prob` [B], the posterior
    log-probability of the best path, and `token_marginals` [T, L]; `intent_losses` and
    `tag_losses` [B], in nats, are infinite where a true label is not in the schema.
    """

    intents: Tensor
    tag_paths: Tensor
    intent_log_probs: Tensor
    path_log_prob: Tensor
    token_marginals: Tensor
    intent_losses: Tensor
    tag_losses: Tensor


def label_losses(scores: Tensor, gold: Tensor, *, unknown: float = 0.0) -> Tensor:
    """Cross-entropies in nats of the labels `gold` int64[n] under the `scores` [n,
    labels] or [n, labels, ...]; `unknown` where the schema lacks the label (-1).
    """
    losses = F.cross_entropy(scores, gold.clamp(min=0), reduction="none")
    return losses.masked_fill(gold < 0, unknown)


def independent_losses(
    tags: Tensor, gold: Tensor, record: Tensor, number: int, *, enough: float = 0.0
) -> Tensor:
    """[number]: the losses of tokens alone, in nats, summed over each record's.

    `tags` [n, L] are scores, `gold` int64[n] the labels (-1: one that adds nothing),
    `record` int64[n] whose token each row is. A loss is what a cross-entropy exceeds
    `enough` by, smoothed up to twice `enough`: its gradient is exactly 0 below, and
    continuous.
    """
    tags = tags.float() if tags.dtype == torch.bfloat16 else tags
    each = label_losses(tags, gold)
    # Continuous, because a jump would show the rounding of a score in the whole
    # gradient.
    excess = F.smooth_l1_loss(
        F.relu(each - enough), torch.zeros_like(each), reduction="none", beta=enough
    )
    return each.new_zeros(number).index_add(0, record, excess)


class NluModel(DropsByRecord, ABC):
    """An intent classifier and slot tagger over packed batches: an intent head on one
    vector a record, a tag head and a CRF on one vector a token. A subclass makes both
    vectors in `encode` and their inputs in `feature_table`, and overrides the other
    methods where it differs.

    `provenance` names the pretrained parts. `token_width` is the width of both vectors;
    dropout masks follow from `seed` and the record.
    """

    def __init__(
        self,
        schema: LabelSchema,
        *,
        token_width: int,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.num_intents, self.num_tags = len(schema.intents), len(schema.tags)
        self.provenance = "trained from random weights"
        self.dropout = dropout
        self.intent_head = Linear(token_width, self.num_intents)
        self.tag_head: nn.Module = Linear(token_width, self.num_tags)
        self.crf = LinearChainCrf(self.num_tags)
        self._seed = seed

    @classmethod
    @abstractmethod
    def build(cls, config: Any, *, schema: LabelSchema, seed: int) -> Self:
        """The model that a config names, for the labels of `schema`. Torch's generator
        has been seeded for it; `seed` is for what is drawn otherwise (see
        `ModelConfig.build`).
        """

    @abstractmethod
    def feature_table(self, types: Sequence[str]) -> FeatureTable:
        """The inputs of `encode` for each distinct token, to be collated by token
        id.
        """

    def loader(self, corpus: Corpus, *, cache_dir: Path) -> Loader:
        """Batches of a corpus for this model; derived data are kept in `cache_dir`."""
        return Loader(corpus, self.feature_table(corpus.types))

    def records_at_once(self, lengths: NDArray[np.int64]) -> int | None:
        """How many records of a step of records of these lengths, in tokens, pass at a
        time, where `training.physical_batch_size` is not set; None: all of them.
        """
        return None

    @property
    def public_inputs(self) -> list[str]:
        """What it takes from public texts beside the encoder, one sentence each."""
        return []

    def save_public(self, folder: Path) -> None:
        """Write into the `folder` of a saved model what it has computed from public
        texts alone; by default nothing.
        """
        return

    @abstractmethod
    def encode(self, batch: PackedBatch) -> Encoded:
        """Vectors of tokens and records."""

    @contextmanager
    def watched(self, *, deep: bool = False) -> Iterator[None]:
        """A context of passes after which nothing in the model may have changed. A step
        looks at what is cheap to compare; `deep`, at the latest after each epoch,
        compares everything.

        Raises: TrialFailed at its end, naming what changed.
        """
        yield

    def losses(self, batch: PackedBatch) -> Tensor:
        """[B]: cross-entropy of the intent plus negative log-likelihood of the tags, in
        nats.

        The part of the loss of a label that the schema lacks (-1) is 0.
        """
        encoded = self.encode(batch)
        layout = encoded.layout
        intent, emissions = self._heads(encoded)
        of_intents = label_losses(intent.float(), batch.intents)
        gold = batch.tags.index_select(0, layout.source).clamp(min=0)
        return of_intents + self._mask_unknown(
            self.crf(emissions, gold, layout), batch, layout, 0.0
        )

    @torch.no_grad()
    def predict(self, batch: PackedBatch) -> Predictions:
        """Best labels, posteriors and losses. Call in eval mode for scores without
        dropout.
        """
        encoded = self.encode(batch)
        layout = encoded.layout
        intent, emissions = self._heads(encoded)
        found = forward_backward(emissions, self.crf.scores, layout)
        paths, scores = self.crf.best_paths(emissions, layout)
        gold = batch.tags.index_select(0, layout.source).clamp(min=0)
        tag_losses = found.log_partition - path_scores(
            emissions, gold, self.crf.scores, layout
        )
        tag_losses = tag_losses.index_select(0, layout.rank)
        log_probs = intent.log_softmax(1)
        path_log_prob = scores - found.log_partition.index_select(0, layout.rank)
        is_known = path_log_prob.isfinite() & ~log_probs.isnan().any(1)
        return Predictions(
            intents=log_probs.argmax(1).where(is_known, -1),
            tag_paths=paths.index_select(0, layout.place),
            intent_log_probs=log_probs,
            path_log_prob=path_log_prob,
            token_marginals=found.marginals.index_select(0, layout.place),
            intent_losses=label_losses(intent.float(), batch.intents, unknown=math.inf),
            tag_losses=self._mask_unknown(tag_losses, batch, layout, math.inf),
        )

    def _mask_unknown(
        self, losses: Tensor, batch: PackedBatch, layout: TimeMajor, unknown: float
    ) -> Tensor:
        """`losses` [B], with `unknown` for records that have a tag outside the
        schema.
        """
        lacking = (batch.tags.index_select(0, layout.source) < 0).long()
        in_record = torch.zeros_like(batch.intents).index_add_(
            0, layout.record, lacking
        )
        return losses.masked_fill(in_record > 0, unknown)

    def forbid_broken_spans(self, schema: LabelSchema, *, bonus: float = 0.0) -> None:
        """Learn no transitions: those that BIO does not allow cost so much that no path
        takes one, those that continue a slot gain `bonus`, all others cost nothing.
        """
        start, transitions = bio_scores(schema, bonus=bonus)
        with torch.no_grad():
            self.crf.transitions.copy_(torch.from_numpy(transitions))
            self.crf.start_transitions.copy_(torch.from_numpy(start))
            self.crf.end_transitions.zero_()
        self.crf.requires_grad_(False)

    def _heads(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        records = one_row_each(encoded.sentence.shape[0])
        intent = self.intent_head(encoded.sentence, records)
        return intent, self.tag_head(encoded.tokens, encoded.layout.rows)


def bio_scores(
    schema: LabelSchema, *, bonus: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Start scores [tags] and transition scores [from, to]: 0, or where I- of a slot
    follows B- or I- of it `bonus`, and forbidding where it follows another tag.
    """
    tags = schema.tags
    inside = np.array([tag[0] == "I" for tag in tags])
    goes_on = np.array([[a != "O" and a[2:] == b[2:] for b in tags] for a in tags])
    transitions = np.where(inside, np.where(goes_on, bonus, _NEVER), 0.0)
    return np.where(inside, _NEVER, 0.0).astype(np.float32), transitions.astype(
        np.float32
    )
