"""The privacy filter of a sweep whose trials depend on earlier results.

Composition theorems for fixed mechanisms do not hold for adaptively chosen ones, as
chosen by a search (tpe, gp, nsga2) or stopped by a scheduler (asha, median). A Rényi
filter (Feldman & Zrnic 2021, Theorem 3.1) holds for any choice, as long as all releases
stay within a budget that was fixed before the first trial.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from search_spaces.space import SearchSpace
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidData, InvalidInput

if TYPE_CHECKING:
    from trainables.dp.accounting.certification import Certificate
    from trainables.dp.accounting.composition import RdpFilter
    from trainables.dp.accounting.releases import Release

STORED = "filter"  # among the facts of a sweep
UNFILTERED = (
    "settings were chosen in the light of earlier results without a filter"
    " (budget.total): what was run does not simply add up"
)


def looks_at_results(space: SearchSpace) -> bool:
    """Whether the releases of later trials depend on results of earlier ones, by an
    adaptive search or a scheduler, so that composition for fixed mechanisms does not
    hold.
    """
    return space.search.is_adaptive or space.search.scheduler != "none"


def filter_of(space: SearchSpace, delta: float | None) -> RdpFilter | None:
    """The filter of a sweep at the `filter_delta` of its plan; None where it needs
    none, or has no total.

    Raises: InvalidInput where no point of the space has a mechanism, and so there is no
        delta, or the total permits no release.
    """
    if not looks_at_results(space) or space.budget.total is None:
        return None
    if delta is None:
        raise InvalidInput("expected a point of the space with a mechanism, got none")
    from trainables.dp.accounting.composition import RdpFilter  # a second, with scipy

    return RdpFilter.of(space.budget.total, delta=delta)


def stored_filter(folder: SweepFolder) -> RdpFilter | None:
    """The filter that was fixed before the sweep's first trial; None where none was.

    Raises: InvalidData for one that was changed; InvalidInput where the space has
    another total.
    """
    fields = folder.about().get(STORED)
    if fields is None:
        return None
    from trainables.dp.accounting.composition import RdpFilter

    where = f"expected the log of {folder.name} to have the filter as it was fixed before the"
    try:
        kept: RdpFilter = TypeAdapter(RdpFilter).validate_python(fields)
    except ValidationError:
        raise InvalidData(f"{where} first trial, got a damaged one") from None
    if not kept.is_sound:
        raise InvalidData(
            f"{where} first trial, got more room than epsilon {kept.epsilon:g} has at"
            f" delta {kept.delta:g}"
        )
    if (total := folder.space().budget.total) != kept.epsilon:
        raise InvalidInput(
            f"expected budget.total={kept.epsilon:g}, fixed before the first trial of"
            f" {folder.name}, got {total}"
        )
    return kept


def total_of(
    space: SearchSpace,
    releases: Sequence[Release],
    *,
    delta: float,
    kept: RdpFilter | None,
) -> Certificate:
    """The composition of all `releases` of a sweep at `delta`. Where they depend on
    results: the budget of the filter `kept` at its delta (the caller must leave out
    exempt baselines, which are not filtered), or infinity without a filter.
    """
    from trainables.dp.accounting.certification import certify
    from trainables.dp.accounting.composition import Account

    plain = certify(releases, delta=delta, effort="total")
    if not looks_at_results(space) or math.isinf(plain.epsilon) or not releases:
        return plain
    account = Account(kept)
    for number, what in enumerate(releases):
        account.put(number, what, delta=delta)
    found = account.total() if kept else plain
    if kept and math.isfinite(found.epsilon):
        return found
    reasons = (*found.unaccounted, UNFILTERED)
    return replace(
        found, epsilon=math.inf, accountant="none", tight=False, unaccounted=reasons
    )
