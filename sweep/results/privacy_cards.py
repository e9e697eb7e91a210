"""Writing a trial's privacy card beside its result, from what the trial says that it ran."""

from __future__ import annotations

from typing import Any

from sweep.store.files import read_json, write_json, write_text
from sweep.store.sweeps import SweepFolder
from trainables.figure_cache import FigureCache
from trainables.privacy import card as cards
from trainables.privacy.mechanism import Mechanism
from trainables.result import TrialResult

JSON, MARKDOWN = "privacy_card.json", "privacy_card.md"


def write_card(
    folder: SweepFolder, result: TrialResult, *, attempt: int, figures: FigureCache
) -> None:
    """Write the card of a trial that has ended; none for a trial that trained no epoch."""
    fields = result.privacy.get("mechanism")
    if fields is None or result.epochs_done == 0:
        return
    lists = ("undeclared", "stages")
    mechanism = Mechanism(**{**fields, **{n: tuple(fields[n]) for n in lists if n in fields}})
    facts = cards.Facts(
        trial_id=result.trial_id,
        datasets={"training": str(result.privacy.get("corpus", ""))},
        processes=int(result.privacy.get("processes", 1)),
        attempt=attempt,
        secure_noise=bool(result.privacy.get("noise_is_cipher", False)),
        public_data=bool(result.privacy.get("public_data", False)),
        provenance=str(result.privacy.get("provenance", "")),
        step_audit=result.privacy.get("step_audit"),
    )
    summary = figures.account(mechanism, accountant=result.privacy.get("accountant"))
    card = cards.make(mechanism, summary, facts=facts)
    place = folder.trial_folder(result.trial_id)
    write_json(place / JSON, card)
    write_text(place / MARKDOWN, cards.to_markdown(card))


def read_card(folder: SweepFolder, trial_id: str) -> dict[str, Any] | None:
    """The card of a trial, None where it has none."""
    path = folder.trial_folder(trial_id) / JSON
    if not path.exists():
        return None
    card: dict[str, Any] = read_json(path)
    return card
