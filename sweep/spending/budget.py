"""The budgets of a sweep: epsilon a trial, time. Pure, without clock and disk.

`sweep.planning.plan` refuses trials over budget before anything starts; these apply during a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trainables import accountants, catalogue, formats
from trainables.accountants import paper_zcdp
from trainables.errors import CannotAnalyze, InvalidInput
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.rounding import format_epsilon


@dataclass(frozen=True)
class EpsilonBudget:
    """At most epsilon `limit` for each trial; None: no bound. `accountant` selects the epsilon:
    "sound" (the tightest that holds), "paper" (the paper's), or an entry of accountants.

    Under "sound" any valid upper bound within the limit permits. A quick one is tried first, and
    the exact figure decides.
    """

    limit: float | None
    accountant: str = "sound"

    def __post_init__(self) -> None:
        if self.limit is not None and not self.limit > 0:
            raise InvalidInput(f"expected budget.epsilon > 0, got {self.limit}")
        allowed = ("sound", "paper", *catalogue.names("accountants"))
        if self.accountant not in allowed:
            raise InvalidInput(
                f"expected budget.accountant to be one of {', '.join(allowed)},"
                f" got {self.accountant!r}"
            )

    def refusal(self, mechanism: Mechanism, epochs_done: int) -> str | None:
        """The reason why epoch number `epochs_done` + 1 may not be trained; None if and only if
        epsilon at its end is within the limit. After the last epoch nothing is spent, so None.

        Raises: InvalidInput for epochs_done outside 0, ..., epochs.
        """
        if not 0 <= epochs_done <= mechanism.epochs:
            raise InvalidInput(
                f"expected 0 <= epochs_done <= {mechanism.epochs}, got epochs_done={epochs_done}"
            )
        if epochs_done == mechanism.epochs or self.limit is None or mechanism.is_free:
            return None
        epochs, smallest = epochs_done + 1, float("inf")
        try:
            for figure in self._figures(mechanism, epochs):
                smallest = min(smallest, figure())
                if smallest <= self.limit:
                    return None
        except CannotAnalyze as error:
            return f"no epsilon to hold against budget.epsilon: {error}"
        return (
            f"epsilon {format_epsilon(smallest)} ({self.accountant}) after"
            f" {formats.count(epochs, 'epoch')} exceeds budget.epsilon={self.limit:g}"
        )

    def _figures(self, mechanism: Mechanism, epochs: int) -> Iterator[Callable[[], float]]:
        """Upper bounds of epsilon after `epochs` epochs, quick ones first."""
        stopped = mechanism.first(epochs)
        if self.accountant == "paper":
            yield lambda: paper_zcdp.epsilon(stopped, delta=stopped.delta)
        elif self.accountant == "sound":
            yield lambda: accountants.epsilon_after(mechanism, epochs)
            # A trial that the plan admitted as a whole is not stopped by another bound.
            yield lambda: accountants.account(mechanism, exact=False).epsilon
            yield lambda: accountants.account(stopped).epsilon
        else:
            yield lambda: accountants.account(stopped, accountant=self.accountant).epsilon


@dataclass(frozen=True, kw_only=True)
class SweepBudget:
    """At most `seconds` of wall-clock and `accelerator_hours` for a sweep over its resumes (None:
    no bound).
    """

    seconds: float | None = None
    accelerator_hours: float | None = None

    def refusal(self, *, seconds: float, accelerator_hours: float = 0.0) -> str | None:
        """The reason why no epoch may begin after `seconds` and `accelerator_hours`, or None."""
        if self.accelerator_hours is not None and accelerator_hours >= self.accelerator_hours:
            return f"budget.accelerator_hours={self.accelerator_hours:g} reached"
        if self.seconds is not None and seconds >= self.seconds:
            return f"budget.seconds={self.seconds:g} reached"
        return None


def bounds_after(mechanism: Mechanism, epochs: int) -> dict[str, float]:
    """Upper bounds of the epsilon of `epochs` epochs, quick enough for use between epochs."""
    stopped = mechanism.first(epochs)
    if mechanism.sampling == "shuffle" or mechanism.decay_kind == "none":
        spent = {"epsilon_spent": accountants.epsilon_after(mechanism, epochs)}
    else:  # a distribution for each epoch's noise would take seconds
        spent = {"epsilon_spent": accountants.account(stopped, exact=False).epsilon}
    if mechanism.has_paper_figure:
        spent["epsilon_paper_spent"] = paper_zcdp.epsilon(stopped, delta=mechanism.delta)
    return spent
