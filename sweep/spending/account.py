"""What a config would cost in privacy, as planning, search and the filter ask for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from trainables.config import TrialConfig
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.summary import PrivacySummary


@dataclass(frozen=True, kw_only=True)
class Accounted:
    """What accounting says of a config: its figures, and the mechanism they are of."""

    summary: PrivacySummary
    mechanism: Mechanism


class Account(Protocol):
    """Accounts for one config; `accountant` None means the tightest sound one. `careful` asks for
    a finer bound than planning thousands can afford.

    Raises: InvalidInput for a mechanism that is refused.
    """

    def __call__(self, config: TrialConfig, *, accountant: str | None, careful: bool) -> Accounted:
        """The figures of a config."""
