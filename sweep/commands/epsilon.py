"""`sweep epsilon`: the accounting of one mechanism, from options or from a config file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.commands._options import JsonFlag
from sweep.commands._output import number, print_json, say, say_table
from trainables import catalogue

if TYPE_CHECKING:
    from trainables.guarantee.mechanism import Mechanism
    from trainables.privacy.summary import PrivacySummary

_ENGINES = ", ".join(catalogue.names("engines"))
_DECAYS = ", ".join(catalogue.names("schedules"))
_ACCOUNTANTS = ", ".join(catalogue.names("accountants", kind="guarantee"))
_SAMPLINGS = "shuffle, poisson, random_allocation or full"
_Text = str | None
_Number = float | None
_Count = int | None
_Config = Annotated[Path | None, typer.Argument(metavar="[CONFIG.yaml]", help="config of a trial")]
_Steps = Annotated[
    _Count, typer.Option(help="number of steps T, instead of epochs (sampling poisson or full)")
]
_BatchSize = Annotated[_Count, typer.Option(help="expected batch size B over all workers")]
_Noise = Annotated[_Number, typer.Option(help="noise multiplier z0 at epoch 0")]
_Target = Annotated[
    _Number,
    typer.Option(help="instead of a noise multiplier: find the smallest one for this epsilon"),
]
_GroupScale = Annotated[_Text, typer.Option(help="none, public, first_step_noised or first_step")]
_Normalise = Annotated[_Text, typer.Option(help="of alpha_k: unit or none (the norm itself)")]
_Cap = Annotated[_Number, typer.Option(help="public bound on alpha_k (normalise none)")]
_Relation = Annotated[_Text, typer.Option(help="add_or_remove_one or replace_one")]


def epsilon(  # one flag a field: this command is a calculator and needs no file
    config: _Config = None,
    engine: Annotated[_Text, typer.Option(help=_ENGINES)] = None,
    num_records: Annotated[_Count, typer.Option(help="training records n")] = None,
    expected_batch_size: _BatchSize = None,
    microbatch_size: Annotated[_Count, typer.Option(help="records per clipped mean")] = None,
    num_workers: Annotated[_Count, typer.Option(help="number of workers N (Algorithm 1)")] = None,
    epochs: Annotated[_Count, typer.Option(help="number of epochs E")] = None,
    steps: _Steps = None,
    noise_multiplier: _Noise = None,
    target_epsilon: _Target = None,
    max_grad_norm: Annotated[_Number, typer.Option(help="clip norm C")] = None,
    decay: Annotated[_Text, typer.Option(help=_DECAYS)] = None,
    tau: Annotated[_Number, typer.Option(help="decay rate per epoch")] = None,
    sampling: Annotated[_Text, typer.Option(help=_SAMPLINGS)] = None,
    noise_calibration: Annotated[_Text, typer.Option(help="paper or central")] = None,
    group_scale: _GroupScale = None,
    normalise: _Normalise = None,
    cap: _Cap = None,
    neighboring_relation: _Relation = None,
    delta: Annotated[_Number, typer.Option(help="default: 1e-5, or 1 / (10 n)")] = None,
    accountant: Annotated[_Text, typer.Option(help=_ACCOUNTANTS)] = None,
    as_json: JsonFlag = False,
) -> None:
    """Compute the sound epsilon of a mechanism, and the paper's.

    No file is needed, because every setting is an option. Options override fields of a config.
    """
    from sweep.planning import calculator
    from trainables.accountants import account

    parts = calculator.fields_of(config)
    calculator.change(
        parts,
        {
            "engine": engine,
            "num_records": num_records,
            "expected_batch_size": expected_batch_size,
            "num_workers": num_workers,
            "epochs": epochs,
            "steps": steps,
            "microbatch_size": microbatch_size,
            "max_grad_norm": max_grad_norm,
            "sampling": sampling,
            "noise_calibration": noise_calibration,
            "group_scale": calculator.group_scale(
                parts["privacy"].get("group_scale"), name=group_scale, normalise=normalise, cap=cap
            ),
            "neighboring_relation": neighboring_relation,
            "delta": delta,
            "accountant": accountant,
            "noise_multiplier": calculator.noise(noise_multiplier, target_epsilon),
            "noise_decay": calculator.decay(parts, decay, tau),
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
