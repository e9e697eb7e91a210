"""Intents and slots: train a model on a corpus' training part, measure it on its test
part.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from trainables import saved_predictions
from trainables.cards.card import STARTING_WEIGHTS
from trainables.config.trial import TrialConfig
from trainables.dp.per_record import ByRecord
from trainables.figures import VALIDATION
from trainables.io.files import dump_json, make_folder
from trainables.metrics import Counts, summarize
from trainables.models.encoders.about import about_of
from trainables.models.encoders.named_files import encoders_of
from trainables.result import EpochReport, TrialResult
from trainables.system import phase
from trainables.system.checkpoint import write_tensors
from trainables.system.communication import Communicator
from trainables.tasks import _held_out, _leakage
from trainables.tasks._setup import TrialSetup, prepare
from trainables.tasks._trial_result import Clock, result, spent_privacy
from trainables.training import train


def run(
    config: TrialConfig,
    *,
    folder: Path,
    comm: Communicator,
    report: Callable[[EpochReport], bool],
    data_dir: Path,
    cache_dir: Path,
) -> TrialResult:
    """See `trainables.trial.run`."""
    clock = Clock(folder, leads=comm.rank == 0)
    setup = prepare(config, comm=comm, data_dir=data_dir, cache_dir=cache_dir)
    before = _before_training(setup, folder)
    clock.end("prepare")
    trained = train(
        setup,
        config.training,
        folder=folder,
        comm=comm,
        report=report,
        facts=setup.encoder_files,
    )
    setup.refuse_unmoved(epochs=trained.best_epoch)
    clock.end("train", then=phase.EVALUATING)
    if setup.held_out is not None:
        tested, leakage = _release(setup, folder, epochs_done=trained.epochs_done)
    else:
        counts, leakage = _measure(setup, folder)
        tested = _summary(setup, counts)
        if comm.rank == 0:
            saved_predictions.write_counts(folder, setup.split.test, counts)
    clock.end("evaluate", without=leakage.seconds + leakage.shadow_seconds)
    summary = spent_privacy(setup.config, setup.mechanism, trained)
    if comm.rank == 0:
        save_model(setup, folder / "model")
    return result(
        config,
        setup.mechanism,
        trained,
        summary,
        comm=comm,
        metrics={
            **tested,
            **leakage.metrics,
            **before,
            "epsilon_paper": summary.epsilon_paper,
            "duplicates_dropped": float(setup.corpus.num_duplicates),
            **{
                name: value
                for name, value in trained.best.items()
                if name.startswith(VALIDATION)
            },
        },
        seconds={
            **clock.seconds,
            "attacks": leakage.seconds,
            "shadow": leakage.shadow_seconds,
        },
        corpus=setup.corpus.name,
        public_data=setup.config.data.is_public,
        provenance=setup.model.provenance,
        public=_public(setup),
        attacks=sorted(_leakage.names(setup)) if config.trains else (),
        by_record=isinstance(setup.model, ByRecord),
        notes=(setup.model.provenance, *leakage.notes),
    )


def _summary(setup: TrialSetup, counts: Counts) -> dict[str, float]:
    return summarize(
        counts,
        labels=setup.corpus.schema.labels,
        bootstrap_samples=setup.config.evaluation.bootstrap_samples,
        seed=setup.config.training.seed,
    )


def _release(
    setup: TrialSetup, folder: Path, *, epochs_done: int
) -> tuple[dict[str, float], _leakage.Leakage]:
    """The released figures of the test records; beside them, for the curator, those
    without noise and the attacks. None of the latter may end a trial, because whether
    it ended would depend on test records.
    """
    alone = _held_out.predict_alone(setup, setup.split.test)
    found = _held_out.test(setup, alone, epochs=range(epochs_done))
    leakage = _leakage.Leakage()
    try:
        leakage = replace(_measure(setup, folder)[1], notes=())
        validated = _held_out.predict_alone(setup, setup.split.validation)
        parts = {"test": alone, "validation": validated}
        raw = {name: _summary(setup, part.counts) for name, part in parts.items()}
        if setup.comm.rank == 0:
            saved_predictions.write_raw(folder, raw)
            place = folder / saved_predictions.CURATOR
            saved_predictions.write_counts(place, setup.split.test, alone.counts)
    except Exception as problem:  # noqa: BLE001  its words may quote a record's
        if setup.comm.rank == 0:
            saved_predictions.write_raw(folder, {"problem": type(problem).__name__})
    return found, leakage


def _before_training(setup: TrialSetup, folder: Path) -> dict[str, float]:
    """SER before training (at epsilon 0) of a model that predicts from the names of the
    labels. A resumed trial reads its first result.
    """
    if not (setup.config.trains and setup.config.model.has_prior):
        return {}
    if setup.held_out is not None:
        return {}  # the trial of `untrained` releases it
    leads = setup.comm.rank == 0
    kept: float | None = setup.comm.broadcast(
        saved_predictions.read_before(folder) if leads else None
    )
    if kept is None:
        kept = setup.label_scores(setup.split.test)["ser"]
        if leads:
            saved_predictions.write_before(folder, kept)
    return {"ser_before_training": kept}


def _measure(setup: TrialSetup, folder: Path) -> tuple[Counts, _leakage.Leakage]:
    """The test counts and the results of attacks, from one pass over the records of
    both, because most of the attacked non-members are test records.
    """
    test = setup.split.test
    if not setup.config.trains:
        why = "no attack: no record was trained on, so members are like all others"
        return setup.counts(test, setup.labels(test)), _leakage.Leakage(notes=(why,))
    targets = _leakage.targets(setup)
    records = np.union1d(test, targets.records)
    predicted = setup.infer(records)
    counts = setup.counts(test, predicted.take(np.searchsorted(records, test)))
    phase.enter(phase.ATTACKS)
    leakage = _leakage.measure(
        setup,
        targets,
        predicted.take(np.searchsorted(records, targets.records)),
        folder=folder,
    )
    return counts, leakage


def _public(setup: TrialSetup) -> list[str]:
    """The inputs that are treated as public, one sentence each."""
    schema = setup.corpus.schema
    found = [f"the label sets ({schema.source})"] if schema.public else []
    found += setup.model.public_inputs
    is_private = not setup.config.data.is_public
    for about in filter(None, map(about_of, encoders_of(dict(setup.config.model)))):
        found += about.public_inputs(is_private=is_private)
    if setup.config.privacy.group_scale.name == "public":
        found.append("made utterances, for the scale of parameter groups")
    return [*found, f"{STARTING_WEIGHTS} ({setup.model.provenance})"]


def save_model(setup: TrialSetup, folder: Path) -> None:
    """Write weights as safetensors and the description for building the model, as
    JSON.
    """
    make_folder(folder)
    write_tensors(folder / "weights.safetensors", setup.model.state_dict())
    setup.model.save_public(folder)
    schema = setup.corpus.schema
    about = {
        "model": setup.config.model.model_dump(mode="json"),
        "intents": list(schema.intents),
        "slots": list(schema.slots),
        "schema_source": schema.source,
        "tokenize": schema.tokenize,
        "provenance": setup.model.provenance,
        **setup.encoder_files,
    }
    dump_json(folder / "model.json", about, indent=2)
