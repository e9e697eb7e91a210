"""`sweep stop`: stop a running sweep."""

from typing import Annotated

import typer

from sweep.commands._options import Name
from sweep.commands._output import say


def stop(
    name: Name,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for the end.")
    ] = 60.0,
) -> None:
    """Stop a running sweep. `sweep resume` continues from its last checkpoints."""
    import time

    from sweep.settings import from_environment
    from sweep.store import sweeps as store
    from trainables.errors import InvalidInput, TrialFailed

    home = from_environment().home
    folder = store.open_sweep(home, name)
    if not folder.is_running:
        raise InvalidInput(f"sweep {name} is not running")
    folder.request_stop()
    deadline = time.monotonic() + wait
    while folder.is_running and time.monotonic() < deadline:
        time.sleep(0.2)
    if wait > 0 and folder.is_running:
        raise TrialFailed(
            f"sweep {name} was still running {wait:g} s after the request to stop"
        )
    say(f"{name} was requested to stop: {store.how_to_go_on(home, name)}.")
