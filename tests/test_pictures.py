"""The pictures of README and docs show the code of today."""

import json

from tests import pictures


def test_no_picture_is_older_than_what_it_shows():
    """Else: `make pictures SWEEP=NAME`, of a finished sweep of `make sweep`."""
    made = json.loads(pictures.FACTS.read_text("utf-8"))
    now = pictures.shown()
    older = [name for name, mark in now.items() if made[name] != mark]
    assert older == [], f"pictures of the {older} are older than the code"


def test_every_picture_is_made_or_kept_on_purpose():
    """An image that no page shows is nobody's."""
    root = pictures.IMAGES.parents[1]
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    text = "".join(page.read_text("utf-8") for page in pages)
    unused = [
        path.name
        for path in pictures.IMAGES.glob("*.*g")
        if f"images/{path.name}" not in text
    ]
    assert unused == []
