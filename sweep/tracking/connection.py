"""Whether a tracking store answers, and what its failures mean. Without MLflow, whose import takes
seconds.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import replace
from urllib.parse import urlsplit

from sweep.settings import Settings, first_line, hide_passwords, sqlite_file
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidInput

# What MLflow raises for a call that would be refused again.
_REFUSED = frozenset(
    {
        "BAD_REQUEST",
        "ENDPOINT_NOT_FOUND",
        "FEATURE_DISABLED",
        "INVALID_PARAMETER_VALUE",
        "INVALID_STATE",
        "NOT_IMPLEMENTED",
        "PERMISSION_DENIED",
        "RESOURCE_ALREADY_EXISTS",
        "RESOURCE_DOES_NOT_EXIST",
        "UNAUTHENTICATED",
    }
)


class StoreAway(InvalidInput):
    """The tracking store does not answer now."""


def may_pass(problem: BaseException) -> bool:
    """Whether the same call may succeed later; False where its arguments were refused."""
    if isinstance(problem, InvalidInput):
        return isinstance(problem, StoreAway)
    return getattr(problem, "error_code", None) not in _REFUSED


def for_sweep(settings: Settings, folder: SweepFolder) -> Settings:
    """The settings, in which the start of a sweep decides whether it is tracked, unless the user
    does.
    """
    if settings.names_tracking:
        return settings
    return replace(settings, tracking=bool(folder.about().get("tracking", True)))


def has_store(settings: Settings) -> bool:
    """Whether the store may hold anything: False for a SQLite file that does not exist."""
    file = sqlite_file(settings.tracking_uri)
    return file is None or file.exists()


def require_answer(uri: str, *, timeout: float = 5.0) -> None:
    """Check that a tracking server answers.

    Raises: StoreAway where it does not.
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
        reason = getattr(problem, "reason", None) or first_line(problem)
        raise StoreAway(
            f"tracking server {hide_passwords(uri)} does not answer ({reason})"
        ) from None
