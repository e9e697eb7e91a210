"""`sweep plan`: what would run, what is refused and why, and what each trial would cost."""

from __future__ import annotations

import typer

from sweep.commands._shared import JsonFlag, Set, Space, console, overrides, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def plan(space: Space, assignments: Set = [], as_json: JsonFlag = False) -> None:  # noqa: B006  typer copies it
        """List a space's trials, the refused ones and why, each epsilon; run nothing."""
        from sweep.prepare import prepare
        from sweep.results_table import plan_table
        from sweep.settings import from_environment

        prepared = prepare(space, overrides=overrides(assignments), settings=from_environment())
        if as_json:
            print_json({**prepared.plan.to_dict(), "notes": list(prepared.notes)})
            return
        out = console()
        out.print(plan_table(prepared.plan))
        for note in prepared.notes:
            out.print(note, style="yellow", markup=False)
