"""`sweep stop`: stop a running sweep."""

from __future__ import annotations

from typing import Annotated

import typer

from sweep.commands._options import Name
from sweep.commands._output import say


def stop(
    name: Name,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the end.")] = 60.0,
) -> None:
    """Stop a running or starting sweep. `sweep resume` continues from its last checkpoints."""
    import time

    from sweep.settings import from_environment
    from sweep.store import starting
    from sweep.store import sweeps as store
    from trainables.errors import InvalidInput, TrialFailed

    home = from_environment().home
    is_starting = starting.request_stop(home, name)
    if not is_starting or name in store.names(home):
        folder = store.open_sweep(home, name)
        if folder.is_running:
            folder.request_stop()
        elif not is_starting:
            raise InvalidInput(f"sweep {name} is not running")

    def is_alive() -> bool:
        lives = name in store.names(home) and store.open_sweep(home, name).is_running
        return lives or starting.is_starting(home, name)

    deadline = time.monotonic() + wait
    while is_alive() and time.monotonic() < deadline:
        time.sleep(0.2)
    if wait > 0 and is_alive():
        raise TrialFailed(f"sweep {name} was still running {wait:g} s after the request to stop")
    say(f"{name} was requested to stop: {store.how_to_go_on(home, name)}.")
