"""The setup of an intent-and-slot trial: data, split, model, mechanism, engine."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from trainables import figures
from trainables.config.calibrate import resolve
from trainables.config.trial import TrialConfig, data_config
from trainables.data.batches import Loader, PackedBatch, batch_of_texts
from trainables.data.corpus import Corpus, open_corpus
from trainables.data.records import LabelSchema
from trainables.data.sizes import num_training_records
from trainables.data.split import Split, split_of
from trainables.dp.engines.engine import Engine
from trainables.dp.held_out import HeldOut
from trainables.dp.mechanism import Mechanism
from trainables.dp.noise import SecretKey
from trainables.dp.seeding import generator
from trainables.errors import InvalidInput, TrialFailed
from trainables.figures import VALIDATION
from trainables.metrics import Counts, count_frames, summarize
from trainables.models.encoders.about import require_unlearnt
from trainables.models.encoders.named_files import ENCODER, encoders_of, files_digest
from trainables.models.nlu.base import NluModel
from trainables.system.communication import Communicator
from trainables.tasks import _held_out
from trainables.tasks._inference import Inference, Labels, best_labels, infer
from trainables.tasks._trial_result import (
    attempt_key,
    engine_setup,
    first_rank_first,
    on_device,
)


@dataclass
class TrialSetup:
    """Everything that is fixed before the first step of a trial, and its model.

    `split` has the record ids of each part, `loader` cuts batches of them for the
    model, `engine` takes the steps. `start` holds the trained weights as they begin,
    where a part of the encoder is trained, and is empty otherwise. `data_dir` holds the
    corpora, `cache_dir` data derived from them. `held_out` releases what the trial shows
    of validation and test records, where its guarantee covers these.
    """

    config: TrialConfig
    corpus: Corpus
    split: Split
    loader: Loader
    model: NluModel
    mechanism: Mechanism
    engine: Engine
    comm: Communicator
    start: dict[str, Tensor]
    data_dir: Path
    cache_dir: Path
    held_out: HeldOut | None = None

    @cached_property
    def encoder_files(self) -> dict[str, str]:
        """The digest of an encoder's or word vectors' files, for checkpoint and saved
        model.
        """
        return {ENCODER: files_digest(self.config.model.model_dump(mode="json"))}

    def validation_metric(self, epoch: int) -> tuple[str, str]:
        """See `training.Learner`."""
        if self.held_out is not None:
            return figures.RELEASED_VALIDATION, ""
        return "validation_ser", ""

    def infer(self, ids: np.ndarray) -> Inference:
        """One pass over records, shared among the processes."""
        return infer(self.model, self.loader, ids, comm=self.comm)

    def labels(self, ids: np.ndarray) -> Labels:
        """As `infer`, without the inputs of attacks."""
        return best_labels(self.model, self.loader, ids, comm=self.comm)

    def refuse_unmoved(self, *, epochs: int) -> None:
        """Check that training has changed every trained part of the encoder.

        Raises: TrialFailed for one that is unchanged after `epochs` epochs.
        """
        if self.mechanism.first(epochs).steps < 2:
            # weights behind adapters that start at 0 get their first gradient then
            return
        now = dict(self.model.named_parameters())
        still = [
            name for name, begin in self.start.items() if torch.equal(now[name], begin)
        ]
        if still:
            raise TrialFailed(
                f"expected training of model.name={self.config.model.name} to change"
                f" every trained weight, got {still[0]} unchanged"
                + (f" and {len(still) - 1} others" if len(still) > 1 else "")
            )

    def validate(self, epoch: int) -> dict[str, float]:
        """The metrics of the validation part, equal on every process. What is released
        with noise is released once, where the last epoch's weights are kept anyway.
        """
        if self.held_out is not None:
            last, done = self.config.training.epochs, epoch + 1
            if self.config.training.keep == "best":
                return _held_out.validate(self, epochs=range(epoch, done))
            if done == last:
                return _held_out.validate(self, epochs=range(done))
            return {}
        found = self.label_scores(self.split.validation)
        return {
            name: found[own]
            for name in figures.registry()
            if (own := name.removeprefix(VALIDATION)) != name and own in found
        }

    def label_scores(self, ids: np.ndarray) -> dict[str, float]:
        """Every NLU metric of the model's present predictions for `ids`, without
        intervals.
        """
        return summarize(
            self.counts(ids, self.labels(ids)),
            labels=self.corpus.schema.labels,
            bootstrap_samples=0,
            seed=self.config.training.seed,
        )

    def counts(self, ids: np.ndarray, predicted: Labels) -> Counts:
        """The counts of correct and wrong labels of each of `ids`."""
        evaluation = self.config.evaluation
        schema = self.corpus.schema
        return count_frames(
            self.corpus.frames(ids),
            predicted.frames(schema),
            align=evaluation.ser_align,
            match=evaluation.ser_match,
            tokens=self.corpus.token_sequences(ids)
            if evaluation.ser_match == "value"
            else None,
            hypothesis_tags=predicted.tag_names(schema),
            reference_tags=self.corpus.tag_sequences(ids),
        )


def prepare(
    config: TrialConfig, *, comm: Communicator, data_dir: Path, cache_dir: Path
) -> TrialSetup:
    """As `assemble`, for a model whose initial weights do not depend on the records.

    Raises: InvalidInput for data, a start or a mechanism that cannot be used.
    """
    config.model.require_usable(config.data)
    setup = assemble(config, comm=comm, data_dir=data_dir, cache_dir=cache_dir)
    for encoder in encoders_of(dict(config.model)):
        require_unlearnt(encoder, setup.corpus)
    return setup


def assemble(
    config: TrialConfig, *, comm: Communicator, data_dir: Path, cache_dir: Path
) -> TrialSetup:
    """Open the data, build the model, couple them in an engine.

    Raises: InvalidInput for data or a mechanism that cannot be used.
    """
    corpus = shared_corpus(config, comm=comm, data_dir=data_dir, cache_dir=cache_dir)
    split = split_of(config, corpus)
    config, mechanism = resolve(
        config,
        num_records=num_training_records(config.data, corpus),
        undeclared=corpus.undeclared,
    )
    model: NluModel = config.model.build(
        schema=corpus.schema, seed=config.training.seed
    )
    loader = model.loader(corpus, cache_dir=cache_dir)
    on_device(model, comm)
    train_ids = trainable_ids(corpus, split.train)
    lengths = loader.lengths(train_ids)
    if mechanism.sampling == "full":
        # Norms are computed by length; in this order no step needs to move rows.
        train_ids = train_ids[np.argsort(-lengths, kind="stable")]
    physical = config.training.physical_batch_size
    if physical is None:
        physical = model.records_at_once(lengths)
    key = attempt_key(config, comm)
    groups = text_keys = None
    if mechanism.unit == "group":
        if corpus.groups is None:
            raise InvalidInput(
                "expected data with groups (users) for privacy.unit=group, got"
                f" {corpus.name} without"
            )
        groups, text_keys = corpus.groups[train_ids], loader.text_keys(train_ids)
    public = config.privacy.group_scale.name == "public"
    engine: Engine = config.privacy.make(
        model,
        mechanism,
        engine_setup(
            config,
            mechanism=mechanism,
            loader=loader,
            ids=train_ids,
            groups=groups,
            text_keys=text_keys,
            comm=comm,
            key=key,
            trial_id=config.id,
            public_batch=public_batch(model, corpus.schema) if public else None,
            physical_batch_size=physical,
        ),
    )
    start = {}
    if config.model.trains_part:
        named = model.named_parameters()
        start = {name: p.detach().clone() for name, p in named if p.requires_grad}
    return TrialSetup(
        config,
        corpus,
        split,
        loader,
        model,
        mechanism,
        engine,
        comm,
        start,
        data_dir,
        cache_dir,
        held_out_releases(mechanism, key=key, trial_id=config.id),
    )


def held_out_releases(
    mechanism: Mechanism, *, key: SecretKey, trial_id: str
) -> HeldOut | None:
    """The releases about validation and test records; None where the guarantee does not
    cover these.
    """
    if not mechanism.held_out_noise:
        return None
    return HeldOut(noise=mechanism.held_out_noise, key=key, trial_id=trial_id)


_OUTSIDE, _MADE = 2 / 3, 64


def public_batch(model: NluModel, schema: LabelSchema) -> PackedBatch:
    """Artificial records for alpha_k: generated utterances with labels drawn from the
    schema.

    They determine the size of the groups' gradients.
    """
    made = data_config(name="communication", num_utterances=1_000)
    texts = [utterance.tokens for utterance in made.read(Path())][:_MADE]
    batch = batch_of_texts(texts, model.feature_table)
    draw = generator(0, "public batch")
    # Most words of an utterance are in no slot; tags at random would cancel each
    # other's gradient.
    tags = draw.integers(len(schema.tags), size=len(batch.tags))
    tags[draw.random(len(tags)) < _OUTSIDE] = schema.tags.index("O")
    return replace(
        batch,
        intents=torch.from_numpy(draw.integers(len(schema.intents), size=_MADE)),
        tags=torch.from_numpy(tags),
        text_keys=torch.arange(_MADE),
    )


def trainable_ids(corpus: Corpus, ids: np.ndarray) -> np.ndarray:
    """Those of the record `ids` int64[n] whose labels are all in the schema, in their
    order. Whether a record is kept depends on it alone, so the step stays a function of
    each record.

    Raises: InvalidInput where none is left.
    """
    known: np.ndarray = ids[~corpus.outside[ids]]
    if len(known) == 0:
        raise InvalidInput(
            "expected training records with labels of the schema, got none"
        )
    return known


def shared_corpus(
    config: TrialConfig, *, comm: Communicator, data_dir: Path, cache_dir: Path
) -> Corpus:
    """The corpus of a config; rank 0 builds the cached form before the others open
    it.
    """
    with first_rank_first(comm):
        return open_corpus(config.data, data_dir=data_dir, cache_dir=cache_dir)
