"""The privacy filter of a sweep whose trials depend on earlier results.

Composition theorems for fixed mechanisms do not hold for adaptively chosen ones, as
chosen by a search (tpe, gp, nsga2) or stopped by a scheduler (asha, median). A Rényi
filter (Feldman & Zrnic 2021, Theorem 3.1) holds for any choice, as long as all releases
stay within a budget that was fixed before the first trial.

A person who adds points to a sweep (`sweep extend`) chooses by results, too. Under
`budget.total` the filter of that total holds from then on, also in a sweep whose trials
were fixed: its order and its room follow from total and delta, which were fixed before
the first trial. Without one the trials compose, which covers the choice of everything
but their costs and their number; that is said beside the total.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from search_spaces.space import SearchSpace
from sweep.store.sweeps import SweepFolder
from trainables import formats
from trainables.errors import InvalidData, InvalidInput

if TYPE_CHECKING:
    from trainables.dp.accounting.certification import Certificate
    from trainables.dp.accounting.composition import RdpFilter
    from trainables.dp.accounting.releases import Release

STORED = "filter"  # among the facts of a sweep
EXTENDED = "extended"  # its list of `Extended`
UNFILTERED = (
    "settings were chosen in the light of earlier results without a filter"
    " (budget.total): what was run does not simply add up"
)


@dataclass(frozen=True, kw_only=True)
class Extended:
    """How many trials were added to a sweep after results of it, and how many of them
    were taken over; `raised_from` is the total before, where it was raised.
    `is_total_late`: what was taken over is older than the sweep's total.
    """

    at: float  # seconds since 1970
    added: int
    taken: int
    is_raised: bool = False
    raised_from: float | None = None
    is_total_late: bool = False


_EXTENSIONS = TypeAdapter(tuple[Extended, ...])


def extensions_of(about: Mapping[str, Any]) -> tuple[Extended, ...]:
    """The extensions of a sweep, by its facts, oldest first."""
    return _EXTENSIONS.validate_python(about.get(EXTENDED, ()))


def chosen_after_results(about: Mapping[str, Any], *, is_filtered: bool) -> list[str]:
    """What the total of an extended sweep does not cover, in sentences, by its facts.
    `is_filtered`: it has the filter of a total.
    """
    found, extended = [], extensions_of(about)
    for each in extended:
        if each.is_raised:
            before = (
                "the sweep had none"
                if each.raised_from is None
                else f"it was {each.raised_from:g}"
            )
            found.append(
                f"budget.total was chosen after results: {before} until trials were"
                " added"
            )
    if any(each.is_total_late for each in extended):
        found.append(
            "budget.total was chosen after results: trials that were taken over from"
            " another sweep are older"
        )
    if (number := sum(each.added for each in extended)) and not is_filtered:
        found.append(
            f"{formats.count(number, 'trial')} chosen after results: the composition"
            " holds if their number, noise, steps and sampling did not depend on them"
        )
    return found


def extended_filter(
    folder: SweepFolder, total: float | None, *, delta: float | None, has_spent: bool
) -> RdpFilter | None:
    """The filter of a sweep that is extended under `total`: that of its own total, or
    of a raised one, which is a new bound. `delta` is the smallest of its trials so far;
    None without any. `has_spent`: whether anything was released.

    Raises: InvalidInput for a total that is smaller or given up, for the first one of a
        sweep whose trials depend on results, and as `stored_filter`.
    """
    kept, before = stored_filter(folder), folder.space().budget.total
    if before is not None and (total is None or total < before):
        raise InvalidInput(
            f"expected budget.total={before:g}, under which {folder.name} was started,"
            f" or more, got {total}: what has been spent must not decide the bound"
        )
    if total is None:
        return None
    if before is None and has_spent and looks_at_results(folder.space()):
        raise InvalidInput(
            f"expected no budget.total for {folder.name}, got {total:g}: its trials"
            " depend on results and began without a bound; start a new sweep with one"
            f" (search.start_from: [{folder.name}])"
        )
    if kept is not None and total == before:
        return kept
    if delta is None:
        raise InvalidInput("expected a point of the space with a mechanism, got none")
    from trainables.dp.accounting.composition import RdpFilter

    return RdpFilter.of(total, delta=delta)


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
    """The composition of all `releases` of a sweep at `delta`. With the filter `kept`:
    its budget at its delta (the caller must leave out exempt baselines, which are not
    filtered). Infinity where they depend on results without a filter.
    """
    from trainables.dp.accounting.certification import certify
    from trainables.dp.accounting.composition import Account

    plain = certify(releases, delta=delta, effort="total")
    is_fixed = kept is None and not looks_at_results(space)
    if is_fixed or math.isinf(plain.epsilon) or not releases:
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
