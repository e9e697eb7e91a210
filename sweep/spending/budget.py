"""The budgets of a sweep: epsilon a trial, time. Pure, without clock and disk.

`sweep.planning.plan` refuses trials over budget before anything starts; these apply during a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from search_spaces.parts import Budget
from trainables import accountants, formats
from trainables.accountants import paper_zcdp
from trainables.errors import CannotAnalyze, InvalidInput
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.rounding import format_epsilon


def epsilon_refusal(budget: Budget, mechanism: Mechanism, epochs_done: int) -> str | None:
    """The reason why epoch number `epochs_done` + 1 may not be trained; None if and only if epsilon
    at its end is within `budget.epsilon`. After the last epoch nothing is spent, so None.

    Under the accountant "sound" any valid upper bound within the limit permits. A quick one is
    tried first, and the exact figure decides.

    Raises: InvalidInput for epochs_done outside 0, ..., epochs.
    """
    if not 0 <= epochs_done <= mechanism.epochs:
        raise InvalidInput(
            f"expected 0 <= epochs_done <= {mechanism.epochs}, got epochs_done={epochs_done}"
        )
    if epochs_done == mechanism.epochs or budget.epsilon is None or mechanism.is_free:
        return None
    epochs, smallest = epochs_done + 1, float("inf")
    try:
        for figure in _figures(budget.accountant, mechanism, epochs):
            smallest = min(smallest, figure())
            if smallest <= budget.epsilon:
                return None
    except CannotAnalyze as error:
        return f"no epsilon to hold against budget.epsilon: {error}"
    return (
        f"epsilon {format_epsilon(smallest)} ({budget.accountant}) after"
        f" {formats.count(epochs, 'epoch')} exceeds budget.epsilon={budget.epsilon:g}"
    )


def _figures(accountant: str, mechanism: Mechanism, epochs: int) -> Iterator[Callable[[], float]]:
    """Upper bounds of epsilon after `epochs` epochs, quick ones first."""
    stopped = mechanism.first(epochs)
    if accountant == "paper":
        yield lambda: paper_zcdp.epsilon(stopped, delta=stopped.delta)
    elif accountant == "sound":
        yield lambda: accountants.epsilon_after(mechanism, epochs)
        # A trial that the plan admitted as a whole is not stopped by another bound.
        yield lambda: accountants.account(mechanism, exact=False).epsilon
        yield lambda: accountants.account(stopped).epsilon
    else:
        yield lambda: accountants.account(stopped, accountant=accountant).epsilon


def time_refusal(budget: Budget, *, seconds: float, accelerator_hours: float = 0.0) -> str | None:
    """The reason why no epoch may begin after `seconds` of wall-clock and `accelerator_hours` of a
    sweep over its resumes, or None.
    """
    if budget.accelerator_hours is not None and accelerator_hours >= budget.accelerator_hours:
        return f"budget.accelerator_hours={budget.accelerator_hours:g} reached"
    if budget.seconds is not None and seconds >= budget.seconds:
        return f"budget.seconds={budget.seconds:g} reached"
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
