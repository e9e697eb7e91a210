"""What leaves: the files of an export by name, and its figures by the registry
(`figures`).
"""

import json
from pathlib import Path

from trainables.errors import InvalidInput, quote
from trainables.figures import is_public

FIGURES = "metrics.json"
_FILES = {
    "config.yaml",
    "privacy_card.json",
    "privacy_card.md",
    "about.json",
    "README.md",
    "model",
    FIGURES,
}


def refuse_others(folder: Path) -> None:
    """Raises: InvalidInput for a file of an export that is not on the list, or a figure
    that the registry does not call public.
    """
    figures = json.loads((folder / FIGURES).read_text(encoding="utf-8"))
    strange = {path.name for path in folder.iterdir()} - _FILES
    for name in (*sorted(strange), *(name for name in figures if not is_public(name))):
        raise InvalidInput(
            f"expected an export of public figures and the model, got {quote(name)}"
        )
