"""Writes a trial's privacy card, from the facts in its result."""

from __future__ import annotations

from sweep.store.files import read_json, write_json, write_text
from sweep.store.sweeps import SweepFolder
from trainables.cards import card as cards
from trainables.cards.card import PrivacyCard
from trainables.cards.page import to_markdown
from trainables.figure_cache import FigureCache
from trainables.privacy.mechanism import Mechanism
from trainables.result import TrialResult

JSON, MARKDOWN = "privacy_card.json", "privacy_card.md"


def write_card(
    folder: SweepFolder, result: TrialResult, *, attempt: int, figures: FigureCache
) -> None:
    """Write the card of an ended trial; none for a trial without a trained epoch."""
    about = result.privacy
    fields = about.get("mechanism")
    if fields is None or result.epochs_done == 0:
        return
    lists = ("undeclared", "stages")
    mechanism = Mechanism(**{**fields, **{n: tuple(fields[n]) for n in lists if n in fields}})
    facts = cards.Facts(
        trial_id=result.trial_id,
        datasets={"training": str(about.get("corpus", ""))},
        processes=int(about.get("processes", 1)),
        attempt=attempt,
        secure_noise=bool(about.get("noise_is_cipher", False)),
        public_data=bool(about.get("public_data", False)),
        provenance=str(about.get("provenance", "")),
        public=tuple(about.get("public", ())),
        attacks=tuple(about.get("attacks", ())),
        n_is_declared=bool(about.get("n_is_declared", True)),
        step_audit=about.get("step_audit"),
    )
    summary = figures.account(mechanism, accountant=about.get("accountant"))
    card = cards.make(mechanism, summary, facts=facts)
    place = folder.trial_folder(result.trial_id)
    write_json(place / JSON, card.to_dict())
    write_text(place / MARKDOWN, to_markdown(card))


def read_card(folder: SweepFolder, trial_id: str) -> PrivacyCard | None:
    """The card of a trial, None where it has none.

    Raises: InvalidData for a damaged one.
    """
    path = folder.trial_folder(trial_id) / JSON
    return cards.read(read_json(path), where=path) if path.exists() else None
