"""The shadow model of the paper's attack: trained once for an architecture and a
corpus, shared.

It is an ordinary SGD trial on another, public corpus. Its signals are cached for all
later trials with the same architecture and course of training, of any sweep.
"""

import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from trainables import attacks, catalogue
from trainables.attacks import Signals, read_signals, write_signals
from trainables.attacks.shadow import cache_key, default_corpus, disjoint
from trainables.config.sections import EvaluationConfig
from trainables.config.trial import TrialConfig, data_config
from trainables.data.configs import MadeFrames
from trainables.data.corpus import Corpus
from trainables.data.sizes import declared_pool_size
from trainables.dp import engines
from trainables.io.files import make_folder
from trainables.models.encoders.named_files import files_digest
from trainables.system.communication import Communicator
from trainables.system.locks import alone
from trainables.tasks import _setup
from trainables.training import train

_LEAST = 20  # `data.max_records` allows no fewer


def config_for(config: TrialConfig, *, num_records: int, data_dir: Path) -> TrialConfig:
    """The shadow's trial, on at most as many records as the `num_records` of the
    target's corpus: the target's architecture, schedule and batch size without privacy,
    where the model's entry has no recipe of its own in steps; the target's sampling
    where steps are counted by it.
    """
    sampling = config.privacy.sampling
    if sampling != "full" and config.training.steps is None:
        sampling = None
    name = config.evaluation.shadow_corpus or default_corpus(
        config.data.name, available_corpora(data_dir)
    )
    recipe = config.model.shadow_training
    kept = None
    if "steps" in recipe:  # of full batches: nothing of the target's schedule is left
        sampling = "full"
        kept = {"precision", "num_workers", "physical_batch_size"}
    training = {
        **config.training.model_dump(include=kept),
        # Public and fixed: a sweep over learning rates shares one shadow, and so do a
        # baseline that bounds its gradients and the private trials that are compared
        # with it.
        "seed": 0,
        "gradient_clip_norm": None,
        **recipe,
    }
    # As many records as the target has, generated as noisy as it if needed.
    data: dict[str, Any] = {"name": name}
    is_generated = issubclass(catalogue.entry("datasets", name), MadeFrames)
    if isinstance(config.data, MadeFrames) and is_generated:
        data |= config.data.model_dump(
            include={"num_utterances", "spelling_noise", "label_noise"}
        )
    if pool := declared_pool_size(data_config(**data)):
        data["max_records"] = min(pool, max(num_records, _LEAST))
    return TrialConfig.model_validate(
        {
            "engine": engines.BASELINE,
            "data": data_config(**data),
            "model": config.model,
            "privacy": {"sampling": sampling},
            "training": training,
            "evaluation": EvaluationConfig(attacks=(), bootstrap_samples=0),
        }
    )


def available_corpora(data_dir: Path) -> list[str]:
    """Public corpora that can be read: generated ones always, others if their files
    exist.
    """
    found = []
    for name in catalogue.names("datasets", kind="frames"):
        entry = catalogue.entry("datasets", name)
        if issubclass(entry, MadeFrames) or (
            entry.is_public and (data_dir / entry.place).exists()
        ):
            found.append(name)
    return found


def signals(
    config: TrialConfig,
    target: Corpus,
    *,
    comm: Communicator,
    data_dir: Path,
    cache_dir: Path,
) -> tuple[Signals, float]:
    """The shadow's signals (on every process) and the seconds for training it or
    waiting for another group that trains it; almost 0 once it is cached.

    The first group of processes trains it together; the others wait for its lock.
    """
    shadow = config_for(config, num_records=target.num_records, data_dir=data_dir)
    corpus = _setup.shared_corpus(
        shadow, comm=comm, data_dir=data_dir, cache_dir=cache_dir
    )
    key = cache_key(
        architecture=_description(shadow),
        corpus=corpus.fingerprint + target.fingerprint,
        split_seed=shadow.data.split_seed,
        epochs=shadow.training.epochs,
    )
    place = cache_dir / "shadows" / f"{key}.npz"
    make_folder(place.parent)
    started = time.perf_counter()
    with alone(place.with_suffix(".lock")) if comm.rank == 0 else nullcontext():
        if not comm.broadcast(place.exists()):
            found = _train(
                shadow, target, comm=comm, data_dir=data_dir, cache_dir=cache_dir
            )
            if comm.rank == 0:
                write_signals(place, found)
            comm.broadcast(None)
            return found, time.perf_counter() - started
        waited = time.perf_counter() - started
    return read_signals(place), waited


def _description(shadow: TrialConfig) -> str:
    """All inputs of the shadow's weights beside its records. Without one of them a
    trial could be attacked by the shadow of another optimiser or encoder.
    """
    training = shadow.training
    unread = {"physical_batch_size", "num_workers"}
    model = shadow.model.model_dump(mode="json")
    parts = (
        model,
        files_digest(model),
        training.model_dump(mode="json", exclude=unread),
        shadow.privacy.sampling,
    )
    return json.dumps(parts, sort_keys=True)


def _train(
    shadow: TrialConfig,
    target: Corpus,
    *,
    comm: Communicator,
    data_dir: Path,
    cache_dir: Path,
) -> Signals:
    # Its corpus is public, so an encoder may have been trained on it.
    setup = _setup.assemble(shadow, comm=comm, data_dir=data_dir, cache_dir=cache_dir)
    train(setup, shadow.training, folder=None, comm=comm, report=lambda _: True)
    ids = np.concatenate([setup.split.train, setup.split.test])
    salt = b"public corpora share no record"
    keep = disjoint(setup.corpus.record_hashes(salt)[ids], target.record_hashes(salt))
    keep &= ~setup.corpus.outside[ids]
    ids, member = ids[keep], (np.arange(len(ids)) < len(setup.split.train))[keep]
    predicted = setup.infer(ids)
    return attacks.gather(
        records=ids,
        member=member,
        mode="paper",
        features=predicted.features,
        log_confidence=predicted.log_confidence,
        corpus=setup.corpus.fingerprint,
    )
