"""Releases the best trial of a private selection from the vault, or all once they are
unsealed.
"""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sweep.results.privacy_cards import write_card
from sweep.spending.paid import has_drawn
from sweep.store import manifest
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.state import Epoch, EpochRow, StatusChanged
from sweep.store.sweeps import SweepFolder, TrialRecord, Vault
from trainables.cards.card import PrivacyCard
from trainables.cards.selected import of_selected
from trainables.dp.accounting.rounding import format_delta, format_epsilon
from trainables.figures import EPSILON, EPSILON_REPLACE_ONE, RISKS
from trainables.io.disk import flush

_STAYS = shutil.ignore_patterns("checkpoint*", ".checkpoint*")


def release_best(
    folder: SweepFolder,
    vault: Vault,
    best: TrialRecord | None,
    price: Mapping[str, Any],
) -> None:
    """Copy the best trial into the sweep's folder, with the selection's epsilon instead
    of the trial's; None where no trial was drawn. Nothing leaves where even the best
    has failed. `price` is a `SelectionPrice.to_dict`.
    """
    if best is None or not best.status.is_finished:
        vault.select(trial=None, draw=None if best is None else best.plan.id)
        return
    epsilon = float(price["epsilon_selected"])
    trial = replace(
        best.plan,
        id=best.plan.config.id,
        epsilon=epsilon,
        epsilon_budget=epsilon,
        accountant="selection",
    )
    card = best.privacy and of_selected(best.privacy, price)
    result = _copy(vault, best.plan.id, folder, trial, card=card) or {}
    metrics = {**result["metrics"], EPSILON: epsilon, EPSILON_REPLACE_ONE: None}
    metrics |= {name: price.get(name) for name in RISKS}
    folder.release_trial(
        trial.id,
        epochs=_of_the_release(vault.draws.epochs(best.plan.id)),
        result={**result, "metrics": metrics, "time": time.time()},
    )
    folder.replace_plan(folder.space(), Plan(name=folder.name, trials=(trial,)))
    vault.select(trial=trial.id, draw=best.plan.id)


def release_all(folder: SweepFolder, vault: Vault) -> None:
    """Copy every trial into the sweep's folder; the one released before keeps its
    id.
    """
    chosen = vault.selection() or {}
    trials = []
    for record in vault.draws.records(running=False):
        drawn = record.plan
        is_best = drawn.id == chosen.get("draw") and chosen["trial"] is not None
        trial = replace(drawn, id=chosen["trial"]) if is_best else drawn
        result = _copy(vault, drawn.id, folder, trial, card=record.privacy)
        if result is not None:
            folder.release_trial(
                trial.id, epochs=vault.draws.epochs(drawn.id), result=result
            )
        else:
            _release_failure(folder, vault, record)
        trials.append(trial)
    folder.replace_plan(folder.space(), Plan(name=folder.name, trials=tuple(trials)))


def _release_failure(folder: SweepFolder, vault: Vault, record: TrialRecord) -> None:
    """Record the epochs of a draw that has failed, and why."""
    trial, reason = record.plan.id, record.reason or ""
    folder.add(StatusChanged(entry="begun", trial=trial))
    for row in vault.draws.epochs(trial):
        folder.add(Epoch(trial=trial, row=row))
    folder.add(
        StatusChanged(entry="failed", trial=trial, reason=reason, time=time.time())
    )


def sentence_of(folder: SweepFolder) -> str | None:
    """The state of a private selection in a sentence; None for any other sweep."""
    space, price = folder.space(), folder.about().get("selection")
    if not space.search.is_private_selection or price is None:
        return None
    if folder.is_unsealed:
        return "The sweep was unsealed: its trials cost their composition (`sweep ledger`)."
    vault = Vault(folder)
    selected = vault.selection()
    if selected is None and has_drawn(folder) and not vault.is_sealed:
        return f"The trials that were drawn are missing in {vault.path}: restore it from a copy."
    if selected is None:
        return (
            "The trials are sealed, and so is their number: the best leaves when all"
            f" have ended (`sweep resume {folder.name}` continues interrupted ones)."
        )
    if selected["trial"] is None:
        if selected["draw"] is not None:
            return "No trial that was drawn has a result: nothing is released."
        return f"No trial was drawn, which a {price['law']} law allows: nothing is released."
    delta = format_delta(float(price["delta"]))
    return (
        f"The best of a {price['law']} number of trials with mean {price['mean']:g}:"
        f" epsilon_selected {format_epsilon(float(price['epsilon_selected']))} at delta"
        f" {delta}. The others are sealed (`sweep unseal {folder.name}` shows them, at"
        " the price of their composition)."
    )


def _copy(
    vault: Vault,
    draw: str,
    folder: SweepFolder,
    trial: PlannedTrial,
    *,
    card: PrivacyCard | None,
) -> Mapping[str, Any] | None:
    """Copy the files of a drawn trial into the sweep's folder atomically, without their
    times, which say how many trials ran before. Returns the fields of its result as the
    released trial, None without one.

    Raises: InvalidData where a file differs from the draw's manifest, which the copy
    would hide.
    """
    result = vault.draws.state().trial(draw).result
    if result is not None:
        manifest.require_whole(vault.draws.trial_folder(draw))
    target = folder.trial_folder(trial.id)
    fresh = target.with_name(f".{trial.id}")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(vault.draws.trial_folder(draw), fresh, ignore=_STAYS)
    for path in fresh.rglob("*"):
        os.utime(path)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    flush(target.parent)
    card = card and card.model_copy(update={"trial_id": trial.id})
    if card is not None:
        write_card(target, card)
    manifest.write(target)
    return None if result is None else {**result, "trial_id": trial.id, "privacy": card}


def _of_the_release(rows: Sequence[EpochRow]) -> list[Mapping[str, Any]]:
    """Rows of epochs at the time of the release, without the epsilon of one trial,
    which is not the cost of its model.
    """
    return [
        {
            **row,
            "time": time.time(),
            "metrics": {
                n: v for n, v in row["metrics"].items() if not n.startswith(EPSILON)
            },
        }
        for row in rows
    ]
