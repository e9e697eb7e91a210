"""Every figure of one mechanism, at planning time or exactly, as `certify`
gives it.
"""

import math
from dataclasses import asdict, replace
from types import ModuleType

from trainables import catalogue
from trainables.dp.accounting.accountants import paper_zcdp
from trainables.dp.accounting.certification import (
    OWN,
    Certificate,
    Effort,
    as_one,
    certify,
    meaning_of,
)
from trainables.dp.accounting.releases import (
    Release,
    by_part,
    everything,
    release,
)
from trainables.dp.accounting.summary import PrivacySummary
from trainables.dp.accounting.values import warnings
from trainables.dp.mechanism import Mechanism
from trainables.errors import CannotAnalyze
from trainables.figures import EPSILON, EPSILON_REPLACE_ONE


def account(
    mechanism: Mechanism, *, exact: bool = True, accountant: str | None = None
) -> PrivacySummary:
    """All figures of a mechanism at its own delta, with what its weights start from.

    `exact=False` is for planning thousands of trials: every figure is an upper bound of
    the exact one, `tight` says whether it equals it, and `epsilon_replace_one` under
    Poisson sampling is left out. `accountant` is a registered one, default the
    tightest that is sound here.

    Raises: InvalidInput for an unknown accountant, CannotAnalyze where it does not
    apply.
    """
    what, delta = _releases_of(mechanism), mechanism.delta
    effort: Effort = "exact" if exact else "plan"
    if accountant is None:
        found = certify(what, delta=delta, effort=effort)
    else:
        found = certify_by(accountant, what, delta=delta)
    replaced = _replace_one(mechanism, what, found, exact=exact)
    # Of what was certified, which a plan has not been.
    certified = {EPSILON: found, EPSILON_REPLACE_ONE: replaced} if exact else {}
    return PrivacySummary(
        epsilon=found.epsilon,
        delta=delta,
        accountant=found.accountant,
        tight=found.tight,
        epsilon_paper=(
            paper_zcdp.epsilon(mechanism, delta=delta)
            if paper_zcdp.applies(mechanism)
            else None
        ),
        epsilon_rdp=certify(what, delta=delta, only="rdp", effort=effort).epsilon,
        epsilon_replace_one=None if replaced is None else replaced.epsilon,
        noise_multiplier=mechanism.noise_multiplier,
        effective_noise_multiplier=tuple(
            mechanism.effective_noise_multiplier_at(epoch)
            for epoch in range(mechanism.epochs)
        ),
        neighboring_relation=found.neighboring_relation
        or mechanism.neighboring_relation,
        **asdict(meaning_of(what, found, effort=effort)),
        unaccounted=found.unaccounted,
        warnings=warnings(mechanism),
        own_bounds=tuple(
            name
            for name, each in certified.items()
            if each is not None and math.isfinite(each.epsilon) and not each.by_library
        ),
    )


def epsilon_after(mechanism: Mechanism, epochs: int) -> float:
    """Epsilon spent after `epochs` epochs, 0 for none that starts from nothing: a quick
    upper bound of the figure that `account` gives for a trial stopped there.
    """
    what = _releases_of(mechanism.first(epochs))
    return certify(what, delta=mechanism.delta, effort="running").epsilon


def bounds_after(mechanism: Mechanism, epochs: int) -> dict[str, float]:
    """Upper bounds of the epsilon of `epochs` epochs, quick enough for use between
    epochs.
    """
    stopped = mechanism.first(epochs)
    # A distribution for each epoch's noise would take seconds.
    effort: Effort = "plan" if mechanism.noise_decay else "running"
    found = certify(_releases_of(stopped), delta=mechanism.delta, effort=effort)
    spent = {"epsilon_spent": found.epsilon}
    if paper_zcdp.applies(mechanism):
        spent["epsilon_paper_spent"] = paper_zcdp.epsilon(
            stopped, delta=mechanism.delta
        )
    return spent


def _releases_of(mechanism: Mechanism) -> Release | tuple[Release, ...]:
    """Its release, or all where its weights start from others: as one training where
    they are one, so that any accountant bounds it.
    """
    if not mechanism.starts:
        return release(mechanism)
    every = everything(mechanism)
    return as_one(every) or every


def certify_by(
    accountant: str, what: Release | tuple[Release, ...], *, delta: float
) -> Certificate:
    """The certificate by the accountant of that name. An entry from outside of the
    trusted base may say more than the base, never less.

    Raises: InvalidInput for an unknown accountant, CannotAnalyze for another kind and
        where it does not apply.
    """
    module = bounding(accountant)
    if accountant in OWN:
        return certify(what, delta=delta, only=accountant)
    if not isinstance(what, Release):
        raise CannotAnalyze(
            f"{accountant}: expected one release, got a trial that starts from an"
            f" export of another kind ({', '.join(OWN)} compose them)"
        )
    least = certify(what, delta=delta)
    own = max(float(module.of_release(way, delta=delta)) for [way] in by_part([what]))
    if own <= least.epsilon:
        return least
    return replace(
        least, epsilon=own, accountant=accountant, tight=False, by_library=False
    )


def bounding(accountant: str) -> ModuleType:
    """The accountant of that name, which must be a guarantee.

    Raises: InvalidInput for an unknown accountant, CannotAnalyze for another kind.
    """
    module: ModuleType = catalogue.entry("accountants", accountant)
    allowed = catalogue.names("accountants", kind="guarantee")
    if accountant not in allowed:
        reason = getattr(module, "NO_GUARANTEE", "it is no guarantee")
        raise CannotAnalyze(f"{accountant}: {reason} (expected {', '.join(allowed)})")
    return module


def _replace_one(
    mechanism: Mechanism,
    what: Release | tuple[Release, ...],
    found: Certificate,
    *,
    exact: bool,
) -> Certificate | None:
    """That of one record replaced: the shuffled one itself, or that of the sampling."""
    relation = found.neighboring_relation or mechanism.neighboring_relation
    if relation == "replace_one" or math.isinf(found.epsilon):
        return found
    return certify(what, delta=found.delta, replace_one=True) if exact else None
