"""The trials of `table1.py`, each in a process that takes one after another."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from search_spaces.paths import set_all
from trainables import attacks
from trainables.config.mechanism import build
from trainables.config.trial import TrialConfig, parse
from trainables.dp.accounting.choose import account
from trainables.metrics import summarize
from trainables.metrics._counts import table
from trainables.system.communication import Alone
from trainables.tasks import _leakage, _setup, _shadow
from trainables.training import train


def work(pipe: Any, settings: dict[str, Any], deadline: float) -> None:
    """Train what comes through `pipe` (name, whether it is a shadow model, config)
    until it closes; answer with name and row, or the words of an error, or None where
    time ended it. Signals and counts are left in `signals/`.
    """
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # products of float32, as on a CPU
    places = {"data_dir": settings["data_dir"], "cache_dir": settings["run"] / "cache"}
    comm = Alone(settings["device"])
    while True:
        name, is_shadow, config = pipe.recv()
        file = settings["run"] / "signals" / name
        started = time.perf_counter()
        try:
            if is_shadow:
                corpus = _setup.shared_corpus(config, comm=comm, **places)
                signals, _ = _shadow.signals(config, corpus, comm=comm, **places)
                attacks.write_signals(file.with_name(f"{name}.npz"), signals)
                row: Any = {}
            else:
                row = trial(config, comm, places, file, deadline)
            if row is not None:
                row["seconds"] = time.perf_counter() - started
            pipe.send((name, row))
        except Exception as error:  # noqa: BLE001  # the others go on
            pipe.send((name, f"{type(error).__name__}: {error}"))


def trial(
    config: TrialConfig,
    comm: Alone,
    places: dict[str, Path],
    file: Path,
    deadline: float,
) -> dict[str, Any] | None:
    """The row of a trial; None where time ended it."""
    setup = _setup.prepare(config, comm=comm, **places)
    epochs, seed = config.training.epochs, config.training.seed
    trained = train(
        setup,
        config.training,
        folder=None,
        comm=comm,
        report=lambda _: time.time() < deadline,
    )
    if trained.epochs_done < epochs:
        return None
    test, targets = setup.split.test, _leakage.targets(setup)
    records = np.union1d(test, targets.records)
    predicted = setup.infer(records)
    counts = setup.counts(test, predicted.take(np.searchsorted(records, test)))
    attacked = predicted.take(np.searchsorted(records, targets.records))
    signals = attacks.gather(
        records=targets.records,
        member=targets.member,
        mode=config.data.split,
        features=attacked.features,
        log_confidence=attacked.log_confidence,
        population=targets.population,
        corpus=setup.corpus.fingerprint,
    )
    attacks.write_signals(file.with_name(f"{file.name}.npz"), signals)
    np.save(file.with_name(f"{file.name}.npy"), table(counts))
    num_records = len(setup.split.train)
    row = {
        "epochs": epochs,
        "best_epoch": trained.best_epoch,
        "device": str(comm.device),
    }
    row |= {"validation_ser": trained.best["validation_ser"], "records": num_records}
    tested = summarize(counts, labels=setup.corpus.schema.labels, seed=seed)
    row |= {name: tested[name] for name in ("ser", "ser_low", "ser_high")}
    if setup.mechanism.is_private:
        row |= epsilons(config, num_records=num_records)
    return row


def epsilons(config: TrialConfig, *, num_records: int) -> dict[str, float | None]:
    """The paper's epsilon, the guaranteed one, and that of the same noise where alpha_k
    is the norm of a public gradient, at most 8.
    """
    ours = account(build(config, num_records=num_records))
    scale = {"name": "public", "normalise": "none", "cap": 8.0}
    fields = set_all(config.model_dump(), [("privacy.group_scale", scale)])
    public = account(build(parse(fields), num_records=num_records))
    return {
        "epsilon_paper": ours.epsilon_paper,
        "epsilon": ours.epsilon,
        "epsilon_public": public.epsilon,
    }
