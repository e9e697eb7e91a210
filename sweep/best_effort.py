"""What only shows a sweep (gauges, the live table, MLflow, pictures) never ends it."""

import sys
from collections.abc import Callable
from contextlib import ContextDecorator, suppress
from types import TracebackType

from sweep.settings import first_line


class BestEffort(ContextDecorator):
    """Ends a block, or the calls of a function, whose code fails, and says the first
    failure in one line on stderr.

    `what` names what failed; `then` says what follows from a failure. KeyboardInterrupt
    and SystemExit pass. `problem` is the failure of the latest block in its own words,
    or None.
    """

    def __init__(
        self,
        what: str,
        *,
        then: Callable[[Exception], str] = lambda problem: "the sweep goes on",
    ) -> None:
        self._what = what
        self._then = then
        self._is_said = False
        self.problem: str | None = None

    def __enter__(self) -> None:
        self.problem = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(problem, Exception):
            return False
        self.problem = first_line(problem)
        if not self._is_said:
            self._is_said = True  # first: a screen that fails may be what is guarded
            with suppress(Exception):
                line = f"{self._what} failed ({self.problem}): {self._then(problem)}\n"
                (sys.stderr or sys.__stderr__).write(line)  # type: ignore[union-attr]
        return True
