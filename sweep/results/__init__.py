"""Analysis of finished trials: selection, comparison, leakage, tables, exports.

The package can be called: `sweep.results("quick")` is `frame.results`.
"""

import sys
from types import ModuleType
from typing import Any


class _Results(ModuleType):
    def __call__(self, name: str, **options: Any) -> Any:
        """As `frame.results`."""
        from sweep.results import frame

        return frame.results(name, **options)


sys.modules[__name__].__class__ = _Results
