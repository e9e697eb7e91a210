"""`sweep home`: back up, restore, check and upgrade the home of all sweeps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.commands._options import JsonFlag
from sweep.commands._output import print_json, say

if TYPE_CHECKING:
    from sweep.store.backup import Contents

home = typer.Typer(help="Back up, restore, check and upgrade $SWEEP_HOME.")
_File = Annotated[Path, typer.Argument(metavar="FILE", help="The archive, .tar.gz.")]


@home.command()
def backup(file: _File, as_json: JsonFlag = False) -> None:
    """Write the ledger, its key and all sweeps into one archive.

    It holds what only the owner may read, and is readable by its owner alone. No sweep
    may run meanwhile. MLflow's store and the cache are left out.
    """
    from sweep.settings import from_environment
    from sweep.store.backup import back_up

    settings = from_environment()
    made = back_up(settings.home, file)
    if as_json:
        print_json("home backup", {"file": str(file), **_facts(made)})
        return
    say(
        f"{made.num_sweeps} sweeps and the ledger, {len(made.files)} files: {file}. It"
        " has the home's key and private records: keep it as you keep the home."
    )


@home.command()
def restore(file: _File, as_json: JsonFlag = False) -> None:
    """Write a backup into $SWEEP_HOME, which must be empty or missing."""
    from sweep.settings import from_environment
    from sweep.store.backup import restore as write

    settings = from_environment()
    made = write(settings.home, file)
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(made.made))
    warning = (
        f"What was spent after {when} is not in it. If the home went on after that,"
        " restoring it forgets privacy that was spent, and no command can see that from"
        " inside: then run no sweep on these data here."
    )
    if as_json:
        home_name = str(settings.home)
        print_json(
            "home restore", {"home": home_name, "warning": warning, **_facts(made)}
        )
        return
    say(f"{made.num_sweeps} sweeps and the ledger of {when}: {settings.home}.")
    say(warning, style="bold yellow")


def _facts(made: Contents) -> dict[str, object]:
    return {"made": made.made, "sweeps": made.num_sweeps, "files": len(made.files)}


@home.command()
def check(as_json: JsonFlag = False) -> None:
    """Check every file of $SWEEP_HOME, a line each; the exit code is 1 for damage."""
    from dataclasses import asdict

    from sweep.planning.home_check import check as look
    from sweep.settings import from_environment

    parts = list(look(from_environment()))
    if as_json:
        print_json("home check", {"parts": [asdict(part) for part in parts]})
    else:
        for part in parts:
            say(f"{part.name}: {part.problem or 'whole'}")
        if not parts:
            say("Nothing has been run yet.")
    if any(part.problem for part in parts):
        raise typer.Exit(1)


@home.command()
def upgrade(as_json: JsonFlag = False) -> None:
    """Bring a home of earlier code to today's form. Entries of the ledger are kept."""
    from sweep.planning.home_check import upgrade as bring
    from sweep.settings import from_environment

    done = list(bring(from_environment()))
    if as_json:
        print_json("home upgrade", {"done": done})
    else:
        say(*done)
