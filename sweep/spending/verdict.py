"""The answer to a question of spending. Plain frozen data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """The driver's answer to an event: may the trial spend another epoch? And if not, why."""

    go_on: bool = True
    reason: str = ""


GO_ON = Verdict()
