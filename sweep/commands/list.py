"""`sweep list`: all sweeps in $SWEEP_HOME."""

from typing import Any

from sweep.commands._options import JsonFlag
from sweep.commands._output import print_json, say, say_table
from trainables.system import collector


@collector.paused()
def list(as_json: JsonFlag = False) -> None:  # noqa: A001  the name of the command
    """List all sweeps, oldest first. Damaged ones are marked."""
    import time

    from sweep.settings import from_environment
    from sweep.store import sweeps as store
    from trainables.errors import InvalidInput

    home = from_environment().home
    rows = []
    for folder in store.sweeps(home):
        running = folder.is_running
        row: dict[str, Any] = {"name": folder.name, "running": running, "created": None}
        try:
            known = folder.state()
            counts = dict(known.statuses(running=running))
            row |= {"created": known.about["created"], "trials": counts}
        except InvalidInput as problem:
            row |= {"trials": {}, "problem": str(problem)}
        rows.append(row)
    if as_json:
        print_json("list", {"home": str(home), "sweeps": rows})
        return
    if not rows:
        say(f"No sweeps in {home}.")
        return
    cells = []
    for row in rows:
        made = "?"
        if row["created"] is not None:
            made = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["created"]))
        state = "running" if row["running"] else "at rest"
        trials = ", ".join(
            f"{count} {status}" for status, count in row["trials"].items()
        )
        if "problem" in row:
            state, trials = "damaged", row["problem"]
        cells.append((row["name"], made, state, trials))
    say_table(("sweep", "made", "state", "trials"), cells, title=str(home))
