"""The verdict on an epoch's spending. Plain frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Verdict:
    """The driver's answer to an event: whether the trial may spend another epoch, else the reason.

    `epochs_done`: epochs in the checkpoint from which a new attempt resumes; only later ones are
    charged.
    """

    go_on: bool = True
    reason: str = ""
    epochs_done: int = field(default=0, compare=False)


GO_ON = Verdict()
