"""`plan`, `run`, `resume`, `load` and `compare` from Python, as the commands of those names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces import space as spaces
from sweep.notebook.frames import Planned, Sweep
from sweep.settings import Settings, from_environment
from sweep.store import sweeps as store

if TYPE_CHECKING:
    from rich.console import Console

    from sweep.planning.prepare import Prepared
    from sweep.results.comparison import Comparison
    from sweep.runtime.runner import Run


def plan(
    space: str | Path | dict[str, Any],
    *,
    name: str | None = None,
    overrides: dict[str, Any] | None = None,
    settings: Settings | None = None,
) -> Planned:
    """What `run` would run, with every epsilon and every refusal; nothing is run or written.

    Raises: InvalidInput for a space that is wrong.
    """
    return Planned(_prepare(space, name, overrides, settings or from_environment()))


def run(
    space: str | Path | dict[str, Any],
    *,
    name: str | None = None,
    overrides: dict[str, Any] | None = None,
    budget_total: float | None = None,
    settings: Settings | None = None,
    address: str | None = None,
    quiet: bool = False,
) -> Sweep:
    """Run a space (a file, a shipped name or the document itself) to its end.

    Says on stderr how it goes, a line when a trial ends, unless `quiet`. `budget_total`: refuse it
    where all sweeps on its data would pass this epsilon together.

    Raises: InvalidInput for what is refused, before anything starts.
    """
    from sweep.runtime.live import Execution

    chosen = settings or from_environment()
    prepared = _prepare(space, name, overrides, chosen)
    say = _say(quiet=quiet)
    for note in prepared.notes:
        say(note)
    done = Execution(console=_screen(), quiet=quiet, address=address).start(
        prepared, chosen, command=["sweep.run"], budget_total=budget_total
    )
    return _report_end(done, chosen, say)


def resume(
    sweep: str | Sweep,
    *,
    space: str | Path | None = None,
    accept_changes: bool = False,
    take_up: Sequence[str] = (),
    settings: Settings | None = None,
    address: str | None = None,
    quiet: bool = False,
) -> Sweep:
    """Go on with a sweep, as `sweep resume`: finished trials are kept, others go on from their last
    epoch. `space` is a changed file to go on with, `take_up` has ids of stopped trials to go on.

    Raises: InvalidInput for what is refused, such as a changed space without `accept_changes`.
    """
    from sweep.planning.prepare import extend
    from sweep.runtime.live import Execution

    opened = sweep if isinstance(sweep, Sweep) else load(sweep, settings=settings)
    chosen = settings or opened.settings
    if space is not None:
        extend(opened.folder, str(space), settings=chosen, accept=accept_changes)
    say = _say(quiet=quiet)
    done = Execution(console=_screen(), quiet=quiet, address=address).resume(
        opened.folder, chosen, take_up=take_up, say=say
    )
    return _report_end(done, chosen, say)


def compare(
    first: str | Sweep,
    second: str | Sweep,
    *,
    epsilon_max: float | None = None,
    settings: Settings | None = None,
) -> Comparison:
    """The second against the first, as `sweep compare`: each a sweep, which its best trial stands
    for, or a text SWEEP:TRIAL. `frame()` of it has the figures side by side.

    Raises: InvalidInput where there is no such sweep or trial, or nothing has finished.
    """
    from sweep.results import comparison

    home = (settings or from_environment()).home
    sides = [
        comparison.side(one.folder.path.parent, one.name, epsilon_max=epsilon_max)
        if isinstance(one, Sweep)
        else comparison.side(home, one, epsilon_max=epsilon_max)
        for one in (first, second)
    ]
    return comparison.compare(*sides)


def load(name: str, *, settings: Settings | None = None) -> Sweep:
    """A sweep that has run, or is running.

    Raises: InvalidInput for a name that no sweep has.
    """
    chosen = settings or from_environment()
    return Sweep(store.open_sweep(chosen.home, name), settings=chosen)


def _prepare(
    space: str | Path | dict[str, Any],
    name: str | None,
    overrides: dict[str, Any] | None,
    settings: Settings,
) -> Prepared:
    from sweep.planning.prepare import prepare_space

    found = spaces.from_source(space, overrides=overrides)
    if name is not None:
        found = spaces.rename(found, name)
    return prepare_space(found, settings=settings)


def _screen() -> Console:
    """Lines on stderr: a table that redraws itself is for terminals, not for cells."""
    from rich.console import Console

    return Console(stderr=True, force_terminal=False, force_jupyter=False, highlight=False)


def _say(*, quiet: bool) -> Callable[[str], None]:
    def say(text: str) -> None:
        if not quiet:
            _screen().print(text, markup=False, soft_wrap=True)

    return say


def _report_end(done: Run, settings: Settings, say: Callable[[str], None]) -> Sweep:
    """The sweep, and what a person must know of how it ended."""
    from sweep.results.tables.leakage import violations

    records = done.folder.records(running=False)
    for sentence in violations(records):
        say(sentence)
    counts = Counter(record.status for record in records)
    ended = ", ".join(f"{count} {status}" for status, count in counts.items())
    say(f"{done.folder.name}: {ended}; {done.folder.path}")
    if done.tracking_problem is not None:
        say(f"not all results are tracked ({done.tracking_problem}); `resume` delivers the rest.")
    return Sweep(done.folder, settings=settings)
