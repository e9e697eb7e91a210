"""Releases the best trial of a private selection from the vault, or all once they are unsealed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweep.results.privacy_cards import JSON, MARKDOWN
from sweep.store import manifest
from sweep.store.files import read_json, write_json, write_text
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.sweeps import SweepFolder, TrialRecord, Vault
from trainables.cards import card as cards
from trainables.cards.page import to_markdown
from trainables.cards.selected import of_selected
from trainables.figures import EPSILON, EPSILON_REPLACE_ONE
from trainables.privacy.rounding import format_delta, format_epsilon
from trainables.system.disk import flush

_STAYS = shutil.ignore_patterns("checkpoint*", ".checkpoint*")


def release_best(
    folder: SweepFolder, vault: Vault, best: TrialRecord | None, price: Mapping[str, Any]
) -> None:
    """Copy the best trial into the sweep's folder, with the selection's epsilon instead of the
    trial's; None where no trial was drawn. `price` is a `SelectionPrice.to_dict`.
    """
    if best is None:
        vault.select(trial=None, draw=None)
        return
    epsilon = float(price["epsilon_selected"])
    trial = replace(
        best.plan,
        id=best.plan.config.id,
        epsilon=epsilon,
        epsilon_budget=epsilon,
        accountant="selection",
    )
    place = _copy(vault.draws.trial_folder(best.plan.id), folder, trial)
    if (place / JSON).exists():
        own = cards.read({**read_json(place / JSON), "trial_id": trial.id}, where=place / JSON)
        card = of_selected(own, price)
        write_json(place / JSON, card.to_dict())
        write_text(place / MARKDOWN, to_markdown(card))
    manifest.write(place)
    result = vault.draws.result(best.plan.id) or {}
    metrics = {**result["metrics"], EPSILON: epsilon, EPSILON_REPLACE_ONE: None}
    folder.release_trial(
        trial.id,
        epochs=_of_the_release(vault.draws.epochs(best.plan.id)),
        result={**result, "trial_id": trial.id, "metrics": metrics, "time": time.time()},
    )
    folder.replace_plan(folder.space(), Plan(name=folder.name, trials=(trial,)))
    vault.select(trial=trial.id, draw=best.plan.id)


def release_all(folder: SweepFolder, vault: Vault) -> None:
    """Copy every trial into the sweep's folder; the one released before keeps its id."""
    chosen = vault.selection() or {}
    trials = []
    for drawn in vault.draws.plan().trials:
        trial = drawn if drawn.id != chosen.get("draw") else replace(drawn, id=chosen["trial"])
        place = _copy(vault.draws.trial_folder(drawn.id), folder, trial)
        if (place / JSON).exists():
            fields = {**read_json(place / JSON), "trial_id": trial.id}
            write_json(place / JSON, fields)
            write_text(place / MARKDOWN, to_markdown(cards.read(fields, where=place / JSON)))
        manifest.write(place)
        if (result := vault.draws.result(drawn.id)) is not None:
            rows = vault.draws.epochs(drawn.id)
            folder.release_trial(trial.id, epochs=rows, result={**result, "trial_id": trial.id})
        trials.append(trial)
    folder.replace_plan(folder.space(), Plan(name=folder.name, trials=tuple(trials)))


def sentence_of(folder: SweepFolder) -> str | None:
    """The state of a private selection in a sentence; None for any other sweep."""
    space, price = folder.space(), folder.about().get("selection")
    if not space.search.is_private_selection or price is None:
        return None
    if folder.is_unsealed:
        return "The sweep was unsealed: its trials cost their composition (`sweep ledger`)."
    selected = Vault(folder).selection()
    if selected is None:
        return (
            "The trials are sealed, and so is their number: the best leaves when all have ended"
            f" (`sweep resume {folder.name}` continues interrupted ones)."
        )
    if selected["trial"] is None:
        return f"No trial was drawn, which a {price['law']} law allows: nothing is released."
    delta = format_delta(float(price["delta"]))
    return (
        f"The best of a {price['law']} number of trials with mean {price['mean']:g}:"
        f" epsilon_selected {format_epsilon(float(price['epsilon_selected']))} at delta"
        f" {delta}. The others are sealed (`sweep unseal {folder.name}` shows them, at the price of"
        " their composition)."
    )


def _copy(source: Path, folder: SweepFolder, trial: PlannedTrial) -> Path:
    """Copy a trial's files into the sweep's folder atomically, without their times, which say how
    many trials ran before.
    """
    target = folder.trial_folder(trial.id)
    fresh = target.with_name(f".{trial.id}")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(source, fresh, ignore=_STAYS)
    for path in fresh.rglob("*"):
        os.utime(path)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    flush(target.parent)
    return target


def _of_the_release(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of epochs at the time of the release, without the epsilon of one trial, which is not the
    cost of its model.
    """
    return [
        {
            **row,
            "time": time.time(),
            "metrics": {n: v for n, v in row["metrics"].items() if not n.startswith(EPSILON)},
        }
        for row in rows
    ]
