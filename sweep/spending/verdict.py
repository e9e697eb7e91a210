"""The answer to a question of spending. Plain frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Verdict:
    """The driver's answer to an event: may the trial spend another epoch? And if not, why.

    `epochs_done`: epochs in the checkpoint that a beginning attempt is to go on from; only the
    later ones are paid for.
    """

    go_on: bool = True
    reason: str = ""
    epochs_done: int = field(default=0, compare=False)


GO_ON = Verdict()
