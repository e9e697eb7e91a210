"""Analysis of finished trials: selection, comparison, leakage, tables, exports.

The package can be called: `sweep.results("quick")` is the frame of `summary.results`.
"""

import sys
from types import ModuleType
from typing import Any


class _Results(ModuleType):
    def __call__(self, name: str, **options: Any) -> Any:
        """As `summary.results`."""
        from sweep.results import summary

        return summary.results(name, **options)


sys.modules[__name__].__class__ = _Results
