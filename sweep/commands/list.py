"""`sweep list`: all sweeps in $SWEEP_HOME."""

from __future__ import annotations

import typer

from sweep.commands._shared import JsonFlag, console, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("list")
    def list_sweeps(as_json: JsonFlag = False) -> None:
        """List all sweeps, oldest first."""
        import time
        from collections import Counter

        from rich.table import Table

        from sweep import store
        from sweep.settings import from_environment

        home = from_environment().home
        rows = []
        for name in store.names(home):
            folder = store.open_sweep(home, name)
            counts = Counter(record.status for record in folder.records())
            rows.append(
                {
                    "name": name,
                    "running": folder.is_running,
                    "created": folder.about()["created"],
                    "trials": dict(counts),
                }
            )
        if as_json:
            print_json({"home": str(home), "sweeps": rows})
            return
        if not rows:
            console().print(f"No sweeps in {home}.", markup=False)
            return
        table = Table("sweep", "made", "state", "trials", title=str(home))
        for row in rows:
            made = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["created"]))
            state = "running" if row["running"] else "at rest"
            trials = ", ".join(f"{count} {status}" for status, count in row["trials"].items())
            table.add_row(row["name"], made, state, trials)
        console().print(table)
