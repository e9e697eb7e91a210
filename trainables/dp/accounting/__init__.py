"""From a mechanism to its epsilon.

The functions below import the accounting library at their first use:

- `certify(releases, delta=...)`: the epsilon of a release, or of all trials of a sweep;
  `certify_by(accountant, ...)` by the accountant of that name.
- `account(mechanism, exact=...)`: every figure of one trial.
- `epsilon_after(mechanism, epochs)`, `bounds_after`: the running total.
- `Account`: releases as they come, and whether one more fits.
- `resolve(config, num_records=...)`: a target epsilon turned into a noise multiplier.
- `release(mechanism)`: what an accountant reads, as plain data that a ledger can keep.
- `values_of(mechanism)`: all that the figures depend on, the key of the cache of
  figures.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainables.dp.accounting.calibration import held_out_noise as held_out_noise
    from trainables.dp.accounting.calibration import noise_for as noise_for
    from trainables.dp.accounting.calibration import resolve as resolve
    from trainables.dp.accounting.certification import Certificate as Certificate
    from trainables.dp.accounting.certification import certify as certify
    from trainables.dp.accounting.certification import with_risk as with_risk
    from trainables.dp.accounting.choose import account as account
    from trainables.dp.accounting.choose import bounds_after as bounds_after
    from trainables.dp.accounting.choose import certify_by as certify_by
    from trainables.dp.accounting.choose import epsilon_after as epsilon_after
    from trainables.dp.accounting.composition import Account as Account
    from trainables.dp.accounting.composition import RdpFilter as RdpFilter
    from trainables.dp.accounting.releases import Release as Release
    from trainables.dp.accounting.releases import release as release
    from trainables.dp.accounting.values import values_of as values_of

_HOMES = {
    "Account": "composition",
    "RdpFilter": "composition",
    "Certificate": "certification",
    "certify": "certification",
    "with_risk": "certification",
    "Release": "releases",
    "release": "releases",
    "account": "choose",
    "bounds_after": "choose",
    "certify_by": "choose",
    "epsilon_after": "choose",
    "resolve": "calibration",
    "held_out_noise": "calibration",
    "noise_for": "calibration",
    "values_of": "values",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
