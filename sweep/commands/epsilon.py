"""`sweep epsilon`: the accounting of one mechanism, from options or from a config
file.
"""

from pathlib import Path
from typing import Annotated

import typer

from sweep.commands._options import JsonFlag, Set, overrides
from sweep.commands._output import print_json, say, say_table
from trainables import catalogue

_ENGINES = ", ".join(catalogue.names("engines"))
_Number = float | None
_Count = int | None


def epsilon(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG.yaml]", help="config of a trial")
    ] = None,
    engine: Annotated[str | None, typer.Option(help=_ENGINES)] = None,
    num_records: Annotated[_Count, typer.Option(help="training records n")] = None,
    expected_batch_size: Annotated[
        _Count, typer.Option(help="expected batch size B over all workers")
    ] = None,
    num_workers: Annotated[
        _Count, typer.Option(help="number of workers N (Algorithm 1)")
    ] = None,
    epochs: Annotated[_Count, typer.Option(help="number of epochs E")] = None,
    steps: Annotated[
        _Count,
        typer.Option(
            help="number of steps T, instead of epochs (sampling poisson or full)"
        ),
    ] = None,
    noise_multiplier: Annotated[
        _Number, typer.Option(help="noise multiplier z0 at epoch 0")
    ] = None,
    target_epsilon: Annotated[
        _Number,
        typer.Option(
            help="instead of a noise multiplier: find the smallest one for this epsilon"
        ),
    ] = None,
    target_tpr: Annotated[
        _Number,
        typer.Option(
            help="instead: for this share of members found at 1 % false alarms"
        ),
    ] = None,
    delta: Annotated[_Number, typer.Option(help="default: 1e-5, or 1 / (10 n)")] = None,
    assignments: Set = [],  # noqa: B006  typer copies it
    as_json: JsonFlag = False,
) -> None:
    """Compute the sound epsilon of a mechanism, and the paper's.

    No file is needed: `--set privacy.FIELD=VALUE` or `training.FIELD` gives what has no
    option. Options override fields of a config.
    """
    from sweep.planning import calculator
    from trainables.cards import card as cards
    from trainables.cards import page
    from trainables.dp.accounting.choose import account

    options = {
        "engine": engine,
        "data.num_records": num_records,
        "training.expected_batch_size": expected_batch_size,
        "training.num_workers": num_workers,
        "training.epochs": epochs,
        "training.steps": steps,
        "privacy.delta": delta,
        "privacy.noise_multiplier": calculator.noise(
            noise_multiplier, target_epsilon=target_epsilon, target_tpr=target_tpr
        ),
    }
    parts = calculator.fields_of(config)
    parts = calculator.change(parts, options, assigned=overrides(assignments))
    mechanism, chosen = calculator.mechanism_of(parts)
    summary = account(mechanism, exact=True, accountant=chosen)
    count = parts["data"].get("num_records")
    if as_json:
        print_json("epsilon", calculator.report(mechanism, summary, count))
        return
    card = cards.make(
        mechanism, summary, trial_id="", corpus="", n_is_declared=count is not None
    )
    rows = [row for row in page.rows(card) if row[1] != "-"]
    say_table(("figure", "value", "meaning"), rows, title=mechanism.engine)
    say(*(f"not accounted for: {reason}" for reason in summary.unaccounted))
    say(*calculator.differences(mechanism, summary))
    say(*(f"WARNING: {warning}" for warning in summary.warnings), style="bold red")
