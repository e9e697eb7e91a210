"""`sweep unseal`: show all trials of a private selection, which charges all of them."""

from typing import Annotated

import typer

from sweep.commands._options import JsonFlag, Name, TrackingUri
from sweep.commands._output import console, print_json, say


def unseal(
    name: Name,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Show the trials; the charge cannot be undone."),
    ] = False,
    tracking_uri: TrackingUri = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the withheld trials of a private selection, and charge all of them.

    Its epsilon may rise to that of all trials together.
    """
    from dataclasses import asdict

    from sweep.results.export import spend_of
    from sweep.results.tables.trials import results_table
    from sweep.runtime import selection
    from sweep.settings import from_environment
    from sweep.store import sweeps as store
    from trainables.dp.accounting.rounding import format_delta, format_epsilon
    from trainables.errors import InvalidInput

    settings = from_environment(tracking_uri=tracking_uri)
    folder = store.open_sweep(settings.home, name)
    selection.require_sealed(folder)
    if not yes:
        raise InvalidInput(
            f"expected --yes: all trials of {name} are shown, and the composition of"
            " all trials replaces epsilon_selected where it is larger, also in the"
            " ledger; this cannot be undone"
        )
    problem = selection.unseal(folder, settings)
    total, _ = spend_of(folder)
    if as_json:
        spent = None if total is None else asdict(total)
        print_json(
            "unseal", {"name": name, "total": spent, "tracking_problem": problem}
        )
        return
    records = folder.records()
    console().print(results_table(name, records))
    if total is not None:
        say(
            f"{name} is unsealed: {len(records)} trials together cost epsilon"
            f" {format_epsilon(total.epsilon)} at delta {format_delta(total.delta)}, in"
            " the ledger too."
        )
