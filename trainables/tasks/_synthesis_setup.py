"""The setup of a synthesis trial: records, models, mechanism, engine."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from trainables import catalogue, formats
from trainables.config.calibrate import resolve
from trainables.config.trial import TrialConfig
from trainables.data.pair_split import PairSplit, num_private_records, split_pairs
from trainables.data.pairs import PairCorpus, open_pairs
from trainables.data.texts import EncodedTexts
from trainables.dp.engines.engine import Engine
from trainables.dp.mechanism import Mechanism
from trainables.dp.seeding import stream_seed, torch_seeded
from trainables.generation.material import StageTexts, TrainingTexts
from trainables.models.configs import text_model
from trainables.models.text.causal_lm import LmModule
from trainables.models.text.hub_lm import LmSource, source_of
from trainables.system.checkpoint import part_of
from trainables.system.communication import Communicator
from trainables.tasks._pretraining import mean_token_loss, mix_texts, pretrain
from trainables.tasks._synthesis_checks import (
    learns_from_public_text,
    public_utterances,
    require_data,
    require_unlearnt,
)
from trainables.tasks._synthesis_data import (
    exchange_programs,
    materials,
    prompt_frequencies,
)
from trainables.tasks._trial_result import (
    attempt_key,
    engine_setup,
    first_rank_first,
    on_device,
)


class StagedEngine:
    """Epochs 0..T1-1 of a mechanism train its first model, the next T2 the second.

    Each stage has a separate engine, with separate streams of noise and coins.
    """

    def __init__(self, parts: Mapping[str, Engine], epochs: Mapping[str, int]) -> None:
        self.parts = parts
        self._epochs = epochs

    def stage_of(self, epoch: int) -> tuple[str, int]:
        """The stage that an epoch belongs to, and its number in it."""
        for stage, length in self._epochs.items():
            if epoch < length:
                return stage, epoch
            epoch -= length
        raise ValueError("expected an epoch of the mechanism")

    def run_epoch(self, epoch: int) -> dict[str, float]:
        """All steps of an epoch."""
        stage, own = self.stage_of(epoch)
        return self.parts[stage].run_epoch(own)

    def state_dict(self) -> dict[str, Tensor]:
        """The engines' states, each under its stage."""
        return {
            f"{stage}.{name}": tensor
            for stage, engine in self.parts.items()
            for name, tensor in engine.state_dict().items()
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a `state_dict`."""
        for stage, engine in self.parts.items():
            engine.load_state_dict(part_of(state, stage))


@dataclass
class SynthesisSetup:
    """A learner (see `training.Learner`) and the inputs of its evaluation."""

    config: TrialConfig
    corpus: PairCorpus
    split: PairSplit
    mechanism: Mechanism
    source: LmSource
    method: Any  # entry of the generation shelf
    model: nn.ModuleDict
    engine: StagedEngine
    validation: dict[str, EncodedTexts]
    frequencies: dict[str, float]
    comm: Communicator
    notes: tuple[str, ...]
    cut_rate: float  # share of private records that `max_tokens` cuts in some stage
    public_text: dict[str, StageTexts]

    def validation_metric(self, epoch: int) -> tuple[str, str]:
        """See `training.Learner`; each stage by its loss, among the epochs that train
        it.
        """
        stage, _ = self.engine.stage_of(epoch)
        return f"validation_loss_{stage}", f"{stage}."

    def validate(self, epoch: int) -> dict[str, float]:
        """Mean token loss of each stage on held-out records, and their sum."""
        losses = {
            stage: mean_token_loss(self.model[stage], texts)
            for stage, texts in self.validation.items()
        }
        found = {f"validation_loss_{stage}": loss for stage, loss in losses.items()}
        return {"validation_loss": sum(losses.values()), **found}


def prepare(
    config: TrialConfig,
    *,
    comm: Communicator,
    folder: Path,
    data_dir: Path,
    cache_dir: Path,
) -> SynthesisSetup:
    """Open the pairs, parse utterances, build and pretrain the models, and make the
    engine.

    Raises: InvalidInput for data or a mechanism that cannot be used.
    """
    synthesis, seed = config.synthesis, config.training.seed
    method = catalogue.entry("generation", synthesis.method)
    corpus = open_pairs(config.data, data_dir=data_dir)
    split = split_pairs(
        corpus, config.data, synthesis, mask_seed=stream_seed(seed, config.id)
    )
    require_data(synthesis, corpus, split)
    number, undeclared = num_private_records(corpus, config.data, synthesis)
    config, mechanism = resolve(config, num_records=number, undeclared=undeclared)
    with first_rank_first(comm):
        records = materials(config, corpus, split, method, cache_dir=cache_dir)
    private, public, held_out = records.values()
    pair_seed = config.data.split_seed if synthesis.shuffle_pairs else None
    private, groups = exchange_programs(private, seed=pair_seed)
    corpora, names = public_utterances(data_dir=data_dir)
    if learns_from_public_text(config):
        require_unlearnt(corpus, corpora)
    seen = [*corpora, *public.utterances, *public.programs, *public.prompts]
    source = source_of(text_model(config.model), synthesis, public=seen, seed=seed)
    public_text = {
        stage: mix_texts(stage, method.texts(stage, public), corpora)
        for stage in method.stages
    }
    with first_rank_first(comm):
        models = {
            stage: _model(config, source, stage, text, comm=comm, cache_dir=cache_dir)
            for stage, text in public_text.items()
        }

    key = attempt_key(config, comm)
    frequencies = prompt_frequencies(
        config,
        mechanism,
        method,
        corpus,
        private=private,
        public=public,
        key=key,
        folder=folder,
    )
    texts = encode(config, source, method, private)
    epochs = dict(zip(models, mechanism.stages or (mechanism.epochs,), strict=True))
    parts = {}
    for stage, model in models.items():
        own = replace(
            mechanism, epochs=epochs[stage], stages=(), histogram_noise_multiplier=0.0
        )
        setup = engine_setup(
            config,
            mechanism=own,
            loader=texts[stage],
            ids=np.arange(len(private.utterances)),
            groups=groups,
            comm=comm,
            key=key,
            # separates the noise streams of the stages
            trial_id=f"{config.id}/{stage}",
        )
        parts[stage] = config.privacy.make(model, own, setup)
    provenance = source.provenance
    if source.from_scratch:
        epochs_of_text = formats.count(synthesis.pretrain_epochs, "epoch")
        provenance = (
            f"{epochs_of_text} over the public part and"
            f" {', '.join(names) or 'no other corpus'}, from random weights"
        )
    return SynthesisSetup(
        config=config,
        corpus=corpus,
        split=split,
        mechanism=mechanism,
        source=source,
        method=method,
        model=nn.ModuleDict(models),
        engine=StagedEngine(parts, epochs),
        validation=encode(config, source, method, held_out),
        frequencies=frequencies,
        comm=comm,
        notes=(f"language model: {provenance}",),
        cut_rate=float(np.any([own.cut for own in texts.values()], axis=0).mean()),
        public_text=public_text,
    )


def _model(
    config: TrialConfig,
    source: LmSource,
    stage: str,
    public: StageTexts,
    *,
    comm: Communicator,
    cache_dir: Path,
) -> LmModule:
    """A stage's model, pretrained on public text, with its adapters, on the device."""
    synthesis, seed = config.synthesis, config.training.seed
    model = pretrain(
        source, public, stage=stage, synthesis=synthesis, seed=seed, cache_dir=cache_dir
    )
    if synthesis.lora_rank is not None:
        with torch_seeded(seed):
            model.adapt(rank=synthesis.lora_rank, alpha=synthesis.lora_alpha)
    on_device(model, comm)
    return model


def encode(
    config: TrialConfig, source: LmSource, method: Any, part: TrainingTexts
) -> dict[str, EncodedTexts]:
    """The texts of each stage of `method`, as token ids, by its name."""
    found = {}
    for stage in method.stages:
        own: StageTexts = method.texts(stage, part)
        found[stage] = EncodedTexts(
            own.texts,
            source.tokenizer,
            max_tokens=config.synthesis.max_tokens,
            prompts=own.prompts,
        )
    return found
