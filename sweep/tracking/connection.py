"""Checks a tracking store without MLflow, whose import takes seconds."""

from __future__ import annotations

import contextlib
import urllib.error
import urllib.request
from importlib import metadata
from urllib.parse import urlsplit

from sweep.settings import Settings, hide_passwords, sqlite_file
from sweep.store.files import read_json, write_json
from trainables.errors import InvalidInput

_OPENED = "mlflow.opened.json"


def note_opened(settings: Settings) -> None:
    """Record that the settings' store was opened, where it is a file of this machine."""
    facts = _facts(settings)
    if facts is not None and not was_opened(settings):
        with contextlib.suppress(OSError):
            write_json(settings.home / _OPENED, facts)


def was_opened(settings: Settings) -> bool:
    """Whether the settings' store is a file that this version of MLflow has opened before, or none
    is opened.
    """
    if "mlflow" not in settings.tracking:
        return True
    try:
        facts = _facts(settings)
        return facts is not None and read_json(settings.home / _OPENED) == facts
    except InvalidInput:
        return False


def _facts(settings: Settings) -> dict[str, str] | None:
    file = sqlite_file(settings.tracking_uri)
    if file is None or not file.is_file():
        return None
    return {"uri": settings.tracking_uri, "mlflow": metadata.version("mlflow")}


def require_answer(uri: str, *, timeout: float = 5.0) -> None:
    """Check that a tracking server answers.

    Raises: InvalidInput where it does not.
    """
    if not uri.startswith(("http://", "https://")):
        return
    try:
        parts = urlsplit(uri)
        # MLflow sends a name and a password in a header; urllib takes them for a part of the host.
        place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        with urllib.request.urlopen(f"{place.rstrip('/')}/health", timeout=timeout) as answer:
            answer.read(64)
    except urllib.error.HTTPError:
        return  # any response counts as an answer
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or type(problem).__name__
        raise InvalidInput(
            f"tracking server {hide_passwords(uri)} does not answer ({reason})"
        ) from None
