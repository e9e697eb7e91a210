"""`sweep stop`: ask a running sweep to stop."""

from __future__ import annotations

from typing import Annotated

import typer

from sweep.commands._options import Name
from sweep.commands._output import say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(stop)


def stop(
    name: Name,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait until it has stopped.")
    ] = 60.0,
) -> None:
    """Ask a running sweep to stop; `sweep resume` goes on from its last epochs."""
    import time

    from sweep.settings import from_environment
    from sweep.store import sweeps as store
    from trainables.errors import InvalidInput, TrialFailed

    folder = store.open_sweep(from_environment().home, name)
    if not folder.is_running:
        raise InvalidInput(f"sweep {name} is not running")
    folder.ask_to_stop()
    deadline = time.monotonic() + wait
    while folder.is_running and time.monotonic() < deadline:
        time.sleep(0.2)
    if folder.is_running and wait > 0:
        raise TrialFailed(f"sweep {name} was asked to stop and had not after {wait:g} s")
    say(f"{name} was asked to stop; `sweep resume {name}` goes on.")
