"""The files of a privacy card in the folder of a trial or an export."""

from pathlib import Path

from sweep.store.files import write_json, write_text
from trainables.cards.card import PrivacyCard
from trainables.cards.page import to_markdown

JSON, MARKDOWN = "privacy_card.json", "privacy_card.md"


def write_card(place: Path, card: PrivacyCard) -> None:
    """Write the card as JSON and as a page."""
    write_json(place / JSON, card.to_dict())
    write_text(place / MARKDOWN, to_markdown(card))
