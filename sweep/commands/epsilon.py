"""`sweep epsilon`: the accounting of one mechanism, from options or from a config file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.commands._options import JsonFlag, Set, overrides
from sweep.commands._output import number, print_json, say, say_table
from trainables import catalogue

if TYPE_CHECKING:
    from trainables.guarantee.mechanism import Mechanism
    from trainables.privacy.summary import PrivacySummary

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
    num_workers: Annotated[_Count, typer.Option(help="number of workers N (Algorithm 1)")] = None,
    epochs: Annotated[_Count, typer.Option(help="number of epochs E")] = None,
    steps: Annotated[
        _Count, typer.Option(help="number of steps T, instead of epochs (sampling poisson or full)")
    ] = None,
    noise_multiplier: Annotated[
        _Number, typer.Option(help="noise multiplier z0 at epoch 0")
    ] = None,
    target_epsilon: Annotated[
        _Number,
        typer.Option(help="instead of a noise multiplier: find the smallest one for this epsilon"),
    ] = None,
    delta: Annotated[_Number, typer.Option(help="default: 1e-5, or 1 / (10 n)")] = None,
    assignments: Set = [],  # noqa: B006  typer copies it
    as_json: JsonFlag = False,
) -> None:
    """Compute the sound epsilon of a mechanism, and the paper's.

    No file is needed: `--set privacy.FIELD=VALUE` or `training.FIELD` gives what has no option.
    Options override fields of a config.
    """
    from sweep.planning import calculator
    from trainables.accountants import account

    parts = calculator.set_fields(calculator.fields_of(config), overrides(assignments))
    calculator.change(
        parts,
        {
            "engine": engine,
            "num_records": num_records,
            "expected_batch_size": expected_batch_size,
            "num_workers": num_workers,
            "epochs": epochs,
            "steps": steps,
            "delta": delta,
            "noise_multiplier": calculator.noise(noise_multiplier, target_epsilon),
        },
    )
    mechanism, chosen = calculator.mechanism_of(parts)
    summary = account(mechanism, exact=True, accountant=chosen)
    if as_json:
        count = parts["data"].get("num_records")
        print_json("epsilon", calculator.report(mechanism, summary, count))
    else:
        _print(mechanism, summary)


def _print(mechanism: Mechanism, summary: PrivacySummary) -> None:
    from sweep.planning import calculator
    from trainables.privacy.rounding import format_delta, format_epsilon

    effective = summary.effective_noise_multiplier
    how = f"{summary.accountant}{'' if summary.tight else ' (upper bound)'}"
    where = f"{how}, {summary.neighboring_relation}, {mechanism.sampling}"
    ends = dict.fromkeys((effective[0], effective[-1]))
    by_epoch = " .. ".join(number(value, ".6g") for value in ends)
    found = "largest TPR of a membership test at"
    rows = [
        ("epsilon", _exactly(summary.epsilon), where),
        ("epsilon_paper", _exactly(summary.epsilon_paper), "the paper's formula, no guarantee"),
        ("epsilon_rdp", _exactly(summary.epsilon_rdp), "Rényi accounting, upper bound"),
        ("epsilon_replace_one", _exactly(summary.epsilon_replace_one), "replace_one"),
        (
            "gaussian_mu",
            format_epsilon(summary.gaussian_mu),
            "Gaussian mechanism with this epsilon",
        ),
        ("max_tpr_1pct", format_epsilon(summary.max_tpr_1pct), f"{found} 1 % FPR"),
        ("max_tpr_01pct", format_epsilon(summary.max_tpr_01pct), f"{found} 0.1 % FPR"),
        ("noise_multiplier", number(summary.noise_multiplier, ".6g"), "z0"),
        ("effective_noise_multiplier", by_epoch, "noise over sensitivity, by epoch"),
        ("sensitivity", f"{mechanism.sensitivity:g} C", calculator.sensitivity_reason(mechanism)),
    ]
    title = f"{mechanism.engine}, delta {format_delta(summary.delta)}"
    say_table(("what", "value", "how"), rows, title=title)
    for reason in summary.unaccounted:
        say(f"not accounted for: {reason}")
    for difference in calculator.differences(mechanism, summary):
        say(difference)
    for warning in summary.warnings:
        say(f"WARNING: {warning}", style="bold red")


def _exactly(epsilon: float | None) -> str:
    from trainables.privacy.rounding import format_epsilon

    return format_epsilon(epsilon, digits=6)
