"""From a mechanism to its epsilon.

Each file is one accountant and has a kind. One of the kind "guarantee" has `of_release(what, *,
delta) -> float` (`math.inf` where no finite figure holds; `CannotAnalyze` outside its theorem),
which must not rise with the noise. A config may name it, and `target_epsilon` and budgets may use
it; it never lowers what `certify` of the trusted base (`trainables.guarantee`) gives. The other
kinds give in `NO_GUARANTEE` the reason why their figure bounds no release; one of the kind
"figure" has `epsilon(mechanism, *, delta) -> float`. The functions below import the accounting
library at their first use:

- `certify(releases, delta=...)`: the epsilon of a release, or of all trials of a sweep;
  `certify_by(accountant, ...)` by the accountant of that name.
- `account(mechanism, exact=...)`: every figure of one trial.
- `epsilon_after(mechanism, epochs)`, `bounds_after`: the running total.
- `Account`: releases as they come, and whether one more fits.
- `resolve(config, num_records=...)`: a target epsilon turned into a noise multiplier.
- `release(mechanism)`: what an accountant reads, as plain data that a ledger can keep.
- `values_of(mechanism)`: all that the figures depend on, the key of the cache of figures.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainables.accountants._calibration import noise_for as noise_for
    from trainables.accountants._calibration import resolve as resolve
    from trainables.accountants._choose import account as account
    from trainables.accountants._choose import bounds_after as bounds_after
    from trainables.accountants._choose import certify_by as certify_by
    from trainables.accountants._choose import epsilon_after as epsilon_after
    from trainables.accountants._values import values_of as values_of
    from trainables.guarantee.account import Account as Account
    from trainables.guarantee.account import RdpFilter as RdpFilter
    from trainables.guarantee.certify import Certificate as Certificate
    from trainables.guarantee.certify import certify as certify
    from trainables.guarantee.releases import Release as Release
    from trainables.guarantee.releases import release as release

ENTRIES = {
    "gaussian": "guarantee",
    "paper_zcdp": "figure",
    "pld": "guarantee",
    "rdp": "guarantee",
    "selection": "choice",
}
_HOMES = {
    "Account": "guarantee.account",
    "RdpFilter": "guarantee.account",
    "Certificate": "guarantee.certify",
    "certify": "guarantee.certify",
    "Release": "guarantee.releases",
    "release": "guarantee.releases",
    "account": "accountants._choose",
    "bounds_after": "accountants._choose",
    "certify_by": "accountants._choose",
    "epsilon_after": "accountants._choose",
    "resolve": "accountants._calibration",
    "noise_for": "accountants._calibration",
    "values_of": "accountants._values",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"trainables.{_HOMES[name]}"), name)
