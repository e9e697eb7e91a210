"""What a finished sweep says about its axes: for `sweep show` and the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from search_spaces.expansion import Point
    from sweep.results.importance import Importance
    from sweep.results.standing import Standing
    from sweep.search.advice import EpsilonOf
    from sweep.settings import Settings
    from sweep.store.sweeps import SweepFolder, TrialRecord


def answers(
    folder: SweepFolder,
    records: Sequence[TrialRecord],
    where: Sequence[Standing] | None = None,
) -> tuple[Importance | None, list[str]]:
    """Which axis mattered and what to try next; (None, []) where no metric is common to all.

    `where` are the standings of the trials; None: by their own intervals.
    """
    from sweep.results.importance import importance
    from sweep.search.advice import advice
    from sweep.settings import from_environment
    from trainables.errors import InvalidInput
    from trainables.figure_cache import FigureCache

    try:
        settings = from_environment()
        found = importance(records, kept=FigureCache(settings.cache_dir))
        epsilon_of = _epsilon_of(folder, settings)
        return found, advice(folder.space(), records, found, where, epsilon_of=epsilon_of)
    except InvalidInput:
        return None, []


def _epsilon_of(folder: SweepFolder, settings: Settings) -> EpsilonOf:
    """What a point of the sweep's space would cost; None where that cannot be worked out here."""
    from sweep.planning.accounting import accounting
    from sweep.planning.plan import plan_point
    from trainables.errors import InvalidInput

    space, account = folder.space(), accounting(settings)

    def epsilon_of(point: Point) -> float | None:
        try:
            return plan_point(space, point, account=account).epsilon
        except InvalidInput:
            return None

    return epsilon_of
