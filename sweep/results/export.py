"""A trial as a folder to hand on: config, weights, labels, privacy card, metrics, how it was made.

Nothing that only the curator may see leaves: no membership figures, signals or training losses.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import yaml

from sweep.results.export_encoder import write_encoder
from sweep.results.privacy_cards import JSON, MARKDOWN, read_card
from sweep.spending.entries import furthest
from sweep.spending.filter import total_of
from sweep.spending.ledger import FILE, Ledger
from sweep.store.files import read_json, write_json, write_text
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables.accountants import SweepSpend
from trainables.data.records import LabelSchema
from trainables.errors import CannotAnalyze, InvalidInput
from trainables.figures import LEAKAGE, is_public
from trainables.privacy import card as cards
from trainables.privacy.summary import plain

_MODEL = "model"
_USES = {
    "nlu": "sweep predict . < utterances",
    "synthesis": "sweep synthesize . --to utterances.jsonl",
}


def export_trial(
    folder: SweepFolder, record: TrialRecord, target: Path, *, chosen_by: str | None = None
) -> Path:
    """Write the finished trial into the new folder `target`, whole or not at all; returns it.

    `chosen_by` is the metric that the choice went by.

    Raises: InvalidInput where `target` exists or the trial has not finished.
    """
    if not record.status.is_finished:
        raise InvalidInput(f"expected a finished trial, got {record.plan.id} ({record.status})")
    if target.exists():
        raise InvalidInput(f"expected a new folder for the export, got {target}, which exists")
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    source = folder.trial_folder(record.plan.id)
    write_text(fresh / "config.yaml", yaml.safe_dump(record.plan.config, sort_keys=False))
    if (source / _MODEL).is_dir():
        shutil.copytree(source / _MODEL, fresh / _MODEL)
        _write_model(fresh / _MODEL)
    _write_card(folder, record, fresh)
    write_json(fresh / "metrics.json", public_metrics(record))
    write_json(fresh / "about.json", _about(folder, record, chosen_by=chosen_by))
    fresh.rename(target)
    return target


def _write_model(place: Path) -> None:
    """What other programs read: label maps, and a BERT's encoder as `transformers` has it."""
    if not (place / "model.json").exists():
        return
    about = read_json(place / "model.json")
    if "intents" not in about:
        return
    schema = LabelSchema(
        intents=tuple(about["intents"]), slots=tuple(about["slots"]), source=about["schema_source"]
    )
    maps = {
        name: {str(index): label for index, label in enumerate(labels)}
        for name, labels in (("intents", schema.intents), ("tags", schema.tags))
    }
    write_json(place / "labels.json", maps)
    write_encoder(place)


def public_metrics(record: TrialRecord) -> dict[str, float | None]:
    """The trial's figures without those that only the curator may see."""
    return {name: value for name, value in record.metrics.items() if is_public(name)}


def card_of(folder: SweepFolder, trial_id: str) -> dict[str, Any] | None:
    """A trial's privacy card with what the whole sweep has spent; None where it has no card."""
    card = read_card(folder, trial_id)
    if card is None:
        return None
    total, refused = spend_of(folder)
    if total is None:
        return card
    selection = card["selection"]
    card = cards.with_sweep(card, total=plain(asdict(total)), refused=refused)
    return card if selection is None else {**card, "selection": selection}


def spend_of(folder: SweepFolder) -> tuple[SweepSpend | None, str]:
    """What the sweep's trials have released together, None where they do not compose (or released
    nothing), and why its best trial has no cheaper price.
    """
    everything = Ledger(folder.path.parent / FILE).entries()
    mine = [entry for entry in everything if entry.sweep == folder.ledger_name]
    # A baseline is exempt from the sweep's budgets; what it gives away stands beside the total.
    exempt = {trial.id for trial in folder.plan().trials if trial.baseline}
    entries = furthest(entry for entry in mine if entry.trial not in exempt)
    refused = "trials of a sweep are composed unless their number was drawn beforehand"
    if folder.is_unsealed:
        refused = "the sweep was unsealed, and all its trials are shown"
    if not entries:
        return None, refused
    delta = min(entry.delta for entry in entries)
    try:
        total = total_of(folder.space(), [entry.release for entry in entries], delta=delta)
    except CannotAnalyze as problem:
        return None, str(problem)
    beside = _beside_total(folder, {entry.trial for entry in mine} & exempt)
    return replace(total, unaccounted=(*total.unaccounted, *beside)), refused


def _beside_total(folder: SweepFolder, baselines: Collection[str]) -> list[str]:
    """What the sweep's total leaves out, in sentences."""
    found = []
    if baselines:
        found.append(
            f"{len(baselines)} baseline{'s' if len(baselines) > 1 else ''} of the sweep, exempt"
            " from its budgets: whoever sees what such a trial released has its epsilon beside this"
            " one, without noise infinity"
        )
    if changes := folder.about().get("changes"):
        found.append(
            f"the space was changed {len(changes)} times after trials had run: the total holds"
            " where the changes did not go by their results"
        )
    return found


def _write_card(folder: SweepFolder, record: TrialRecord, target: Path) -> None:
    card = card_of(folder, record.plan.id)
    if card is not None:
        write_json(target / JSON, card)
        write_text(target / MARKDOWN, cards.to_markdown(card))


def _about(folder: SweepFolder, record: TrialRecord, *, chosen_by: str | None) -> dict[str, object]:
    about = folder.about()
    notes = list(record.notes)
    if LEAKAGE in folder.space().search.objectives:
        notes.append(
            "the search went by leakage, which is computed from private records without noise: no"
            " epsilon covers which settings were tried"
        )
    if chosen_by is not None and not is_public(chosen_by):
        notes.append(
            f"chosen by {chosen_by}, which is computed from private records without noise: the"
            " epsilon does not cover the choice"
        )
    return {
        "sweep": folder.name,
        "trial": record.plan.id,
        "name": record.plan.name,
        "chosen_by": chosen_by,
        "repeat": "sweep run config.yaml",
        "predict": _USES[record.plan.config.get("task", "nlu")],
        "command": about["command"],
        "git_commit": about["git_commit"],
        "versions": about["versions"],
        "epochs_done": record.epochs_done,
        "seconds": record.seconds,
        "notes": notes,
    }
