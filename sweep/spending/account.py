"""The interface for the privacy cost of a config, used by planning, search and the filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from trainables.config import TrialConfig
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.summary import PrivacySummary


@dataclass(frozen=True, kw_only=True)
class Accounted:
    """The accounting of a config: its figures and its mechanism."""

    summary: PrivacySummary
    mechanism: Mechanism


class Account(Protocol):
    """Accounts for one config; `accountant` None means the tightest sound one. `careful` selects a
    finer and slower bound than that of planning.

    Raises: InvalidInput for a mechanism that is refused.
    """

    def __call__(
        self, config: TrialConfig, *, accountant: str | None = None, careful: bool = False
    ) -> Accounted:
        """The figures of a config."""
