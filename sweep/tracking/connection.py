"""Whether a tracking server is there."""

from __future__ import annotations

import urllib.error
import urllib.request

from trainables.errors import InvalidInput


def require_answer(uri: str, *, timeout: float = 5.0) -> None:
    """Check that a tracking server is there.

    Raises: InvalidInput where it does not answer.
    """
    if not uri.startswith(("http://", "https://")):
        return
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=timeout) as answer:
            answer.read(64)
    except urllib.error.HTTPError:
        return  # it answers; what it serves at this path is its own affair
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or type(problem).__name__
        raise InvalidInput(f"tracking server {uri} does not answer ({reason})") from None
