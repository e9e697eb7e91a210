"""What a synthesis trial is before its first step: records, models, mechanism, engine."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from trainables import catalogue
from trainables.config import TrialConfig
from trainables.data.pair_split import PairSplit, couples, num_private_records, split_pairs
from trainables.data.pairs import PairCorpus, open_pairs
from trainables.data.texts import EncodedTexts
from trainables.errors import TrialFailed
from trainables.figure_cache import FigureCache
from trainables.generation import histogram
from trainables.generation._material import PARSES, Material, StageTexts
from trainables.models._lm_source import LmSource, source_of
from trainables.models.causal_lm import config_of
from trainables.parse.function_types import function_types
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.noise import SecretKey, new_key, public_key
from trainables.seeding import stream_seed
from trainables.system import checkpoint
from trainables.system.communication import Communicator
from trainables.tasks._parsers import parser_of, programs_of
from trainables.tasks._pretraining import mixed, pretrained, public_utterances
from trainables.tasks._stages import StagedEngine, mean_token_loss, staged_engine
from trainables.tasks._synthesis_checks import require_data

NO_PROMPT = "none"
_HISTOGRAM = "histogram.json"


@dataclass
class SynthesisSetup:
    """A learner (see `training.Learner`) and what its results are measured with."""

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
    public_text: dict[str, Any] = field(default_factory=dict)

    def judged(self, epoch: int) -> tuple[str, str]:
        """See `training.Learner`: each stage by its own loss, among the epochs that train it."""
        stage, _ = self.engine.stage_of(epoch)
        return f"validation_loss_{stage}", f"{stage}."

    def validate(self) -> dict[str, float]:
        """Mean token loss of each stage on held-out records, and their sum."""
        losses = {
            stage: mean_token_loss(self.model[stage], texts)
            for stage, texts in self.validation.items()
        }
        found = {f"validation_loss_{stage}": loss for stage, loss in losses.items()}
        return {"validation_loss": sum(losses.values()), **found}


def prepare(
    config: TrialConfig, *, comm: Communicator, folder: Path, data_dir: Path, cache_dir: Path
) -> SynthesisSetup:
    """Open the pairs, parse what must be parsed, build and pretrain the models, couple them.

    Raises: InvalidInput for data or a mechanism that cannot be used.
    """
    synthesis, seed = config.synthesis, config.training.seed
    method = catalogue.entry("generation", synthesis.method, kind="method")
    corpus = open_pairs(config.data, data_dir=data_dir)
    mask_seed = stream_seed(seed, config.id)
    split = split_pairs(corpus, config.data, synthesis, mask_seed=mask_seed)
    require_data(synthesis, corpus, split)
    number, undeclared = num_private_records(corpus, config.data, synthesis)
    config, mechanism = FigureCache(cache_dir).resolve(
        config, num_records=number, undeclared=undeclared
    )
    with _first_alone(comm):
        records = _materials(config, corpus, split, method, cache_dir=cache_dir)
    private, public, held_out = (records[name] for name in ("private", "public", "validation"))
    groups = None
    if synthesis.shuffle_pairs:
        private, groups = _exchanged(private, seed=config.data.split_seed)
    corpora, names = public_utterances(data_dir=data_dir)
    source = source_of(
        config_of(config.model),
        synthesis,
        public=[*corpora, *public.utterances, *public.programs, *public.prompts],
        seed=seed,
    )
    stages: tuple[str, ...] = method.STAGES if synthesis.only is None else (synthesis.only,)
    models, public_text = {}, {}
    with _first_alone(comm):
        for stage in stages:
            own: StageTexts = method.texts(stage, public)
            public_text[stage] = mixed(
                corpora, own.texts, own.prompts, with_utterances=stage != PARSES
            )
            models[stage] = pretrained(
                source,
                public_text[stage],
                stage=stage,
                synthesis=synthesis,
                seed=seed,
                cache_dir=cache_dir,
            )
    for model in models.values():
        if synthesis.lora_rank is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model.adapt(rank=synthesis.lora_rank, alpha=synthesis.lora_alpha)  # type: ignore[operator]  # LmModule
        if torch.cuda.is_available():
            model.to("cuda")
    # Every attempt draws a key of its own: no noise ever meets two different gradients.
    reproducible = config.privacy.reproducible_noise
    key = public_key(seed, config.id) if reproducible else new_key(comm)
    frequencies = _frequencies(
        config, mechanism, method, corpus, private=private, public=public, key=key, folder=folder
    )
    engine = staged_engine(
        config,
        mechanism,
        models,
        {stage: _encoded(config, source, method.texts(stage, private)) for stage in stages},
        ids=np.arange(len(private.utterances)),
        groups=groups,
        key=key,
        comm=comm,
    )
    return SynthesisSetup(
        config=config,
        corpus=corpus,
        split=split,
        mechanism=mechanism,
        source=source,
        method=method,
        model=nn.ModuleDict(models),
        engine=engine,
        validation={
            stage: _encoded(config, source, method.texts(stage, held_out)) for stage in stages
        },
        frequencies=frequencies,
        comm=comm,
        notes=_notes(config, names, source),
        public_text=public_text,
    )


def _materials(
    config: TrialConfig, corpus: PairCorpus, split: PairSplit, method: Any, *, cache_dir: Path
) -> dict[str, Material]:
    """Records of each part with the columns that the method reads."""
    synthesis = config.synthesis
    by_functions = method.READS_PROMPTS and synthesis.prompt == "function_types"
    reads_programs = method.READS_PROGRAMS or by_functions
    found = {}
    parser = None
    if reads_programs and synthesis.parses == "parser":
        parser = parser_of(
            corpus.select(split.public.tolist()),
            epochs=synthesis.parser_epochs,
            seed=config.data.split_seed,
            cache_dir=cache_dir,
        )
    for name in ("private", "public", "validation"):
        part = corpus.select(getattr(split, name).tolist())
        programs: tuple[str, ...] = ()
        if reads_programs:
            programs = part.programs
            if parser is not None and name != "public":
                programs = programs_of(parser, part.utterances, cache_dir=cache_dir)
        prompts: tuple[str, ...] = ()
        if by_functions:
            prompts = tuple(
                " ".join(sorted(function_types(program, fn_types="heads"))) for program in programs
            )
        elif method.READS_PROMPTS:
            prompts = tuple(domain or NO_PROMPT for domain in part.domains)
        found[name] = Material(part.utterances, programs, prompts)
    return found


def _exchanged(private: Material, *, seed: int) -> tuple[Material, np.ndarray]:
    """Couples of records with their programs exchanged, and the couple of each record."""
    left, right = couples(np.arange(len(private.utterances)), seed=seed)
    ids, partners = np.concatenate([left, right]), np.concatenate([right, left])
    material = Material(
        tuple(private.utterances[i] for i in ids), tuple(private.programs[i] for i in partners)
    )
    return material, np.concatenate([np.arange(len(left)), np.arange(len(right))])


def _frequencies(
    config: TrialConfig,
    mechanism: Mechanism,
    method: Any,
    corpus: PairCorpus,
    *,
    private: Material,
    public: Material,
    key: SecretKey,
    folder: Path,
) -> dict[str, float]:
    """Frequencies of the prompts: drawn once for a trial, and kept for when it is taken up again.

    Raises: TrialFailed where training has begun and the counts that it began with are gone.
    """
    if not method.READS_PROMPTS:
        return {}
    kept = folder / _HISTOGRAM
    if checkpoint.is_there(folder):
        try:
            read: dict[str, float] = json.loads(kept.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise TrialFailed(
                f"expected {_HISTOGRAM} beside the checkpoint, got none that reads: it is released"
                " once, before the first epoch"
            ) from None
        return read
    bins = _bins(config, corpus, public)
    if config.synthesis.histogram == "public":
        counts = histogram.counts_of(public.prompts, bins)
    else:
        counts = histogram.counts_of(private.prompts, bins)
        if mechanism.histogram_noise_multiplier:
            counts = histogram.noised(
                counts,
                std=mechanism.histogram_noise_multiplier,
                key=key,
                trial_id=config.id,
            )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept.write_text(json.dumps(counts), encoding="utf-8")
    return counts


def _bins(config: TrialConfig, corpus: PairCorpus, public: Material) -> list[str]:
    """The public prompts: the corpus' own list of domains, or what the public part shows."""
    entry = catalogue.entry("datasets", corpus.name)
    listed = getattr(entry, "DOMAINS", None)
    if config.synthesis.prompt == "domain" and listed is not None:
        return [*listed, NO_PROMPT]
    return sorted(set(public.prompts))


def _encoded(config: TrialConfig, source: LmSource, texts: StageTexts) -> EncodedTexts:
    return EncodedTexts(
        texts.texts,
        source.tokenizer,
        max_tokens=config.synthesis.max_tokens,
        prompts=texts.prompts,
    )


def _notes(config: TrialConfig, names: tuple[str, ...], source: LmSource) -> tuple[str, ...]:
    provenance = (
        source.provenance
        if not source.from_scratch
        else (
            f"{config.synthesis.pretrain_epochs} epochs over the public part and"
            f" {', '.join(names) or 'no other corpus'}, from random weights"
        )
    )
    return (f"language model: {provenance}",)


class _first_alone:  # noqa: N801  used as a with-statement, like a function
    """Rank 0 does the work first, so that the others find it in the cache."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm

    def __enter__(self) -> None:
        if self._comm.rank != 0:
            self._comm.broadcast(None)

    def __exit__(self, *error: object) -> None:
        if self._comm.rank == 0:
            self._comm.broadcast(None)
