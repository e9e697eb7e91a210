"""`sweep epsilon`: the accounting of one mechanism, from options or from a config file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep.commands._shared import JsonFlag, console, print_json
from trainables import catalogue

if TYPE_CHECKING:
    from trainables.privacy.mechanism import Mechanism
    from trainables.privacy.summary import PrivacySummary

_ENGINES = ", ".join(catalogue.names("engines"))
_DECAYS = ", ".join(catalogue.names("schedules"))
_ACCOUNTANTS = ", ".join(catalogue.names("accountants", kind="guarantee"))
_SAMPLINGS = "shuffle, poisson, random_allocation or full"
_Text = str | None
_Number = float | None
_Count = int | None


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command("epsilon")
    def epsilon(  # one flag a field: this command is a calculator and needs no file
        config: Annotated[
            Path | None, typer.Argument(metavar="[CONFIG.yaml]", help="a trial's config")
        ] = None,
        engine: Annotated[_Text, typer.Option(help=_ENGINES)] = None,
        num_records: Annotated[_Count, typer.Option(help="training records n")] = None,
        expected_batch_size: Annotated[_Count, typer.Option(help="B, over all workers")] = None,
        microbatch_size: Annotated[_Count, typer.Option(help="records clipped as one")] = None,
        num_workers: Annotated[_Count, typer.Option(help="N of Algorithm 1")] = None,
        epochs: Annotated[_Count, typer.Option(help="E")] = None,
        steps: Annotated[
            _Count, typer.Option(help="T in place of E (sampling poisson or full)")
        ] = None,
        noise_multiplier: Annotated[_Number, typer.Option(help="z0, at epoch 0")] = None,
        target_epsilon: Annotated[
            _Number, typer.Option(help="in place of the noise: find the least that meets this")
        ] = None,
        max_grad_norm: Annotated[_Number, typer.Option(help="clip norm C")] = None,
        decay: Annotated[_Text, typer.Option(help=_DECAYS)] = None,
        tau: Annotated[_Number, typer.Option(help="decay rate an epoch")] = None,
        sampling: Annotated[_Text, typer.Option(help=_SAMPLINGS)] = None,
        noise_calibration: Annotated[_Text, typer.Option(help="paper or central")] = None,
        group_scale: Annotated[
            _Text, typer.Option(help="none, public, first_step_noised or first_step")
        ] = None,
        max_group_scale: Annotated[
            _Number, typer.Option(help="public bound on alpha_k (group scale public)")
        ] = None,
        neighboring_relation: Annotated[
            _Text, typer.Option(help="add_or_remove_one or replace_one")
        ] = None,
        delta: Annotated[_Number, typer.Option(help="default: 1e-5, or 1 / (10 n)")] = None,
        accountant: Annotated[_Text, typer.Option(help=_ACCOUNTANTS)] = None,
        as_json: JsonFlag = False,
    ) -> None:
        """What a mechanism costs: epsilon as it holds, and the paper's beside it.

        Needs no file: every setting is an option. With a config, options override its fields.
        """
        from sweep.planning import calculator
        from trainables.accountants import account

        parts = calculator.fields_of(config)
        _set(parts, "engine", engine)
        _set(parts["data"], "num_records", num_records)
        for name, value in (
            ("expected_batch_size", expected_batch_size),
            ("num_workers", num_workers),
            ("epochs", epochs),
            ("steps", steps),
        ):
            _set(parts["training"], name, value)
        for name, setting in (
            ("microbatch_size", microbatch_size),
            ("max_grad_norm", max_grad_norm),
            ("sampling", sampling),
            ("noise_calibration", noise_calibration),
            ("group_scale", group_scale),
            ("max_group_scale", max_group_scale),
            ("neighboring_relation", neighboring_relation),
            ("delta", delta),
            ("accountant", accountant),
            ("noise_multiplier", _noise(noise_multiplier, target_epsilon)),
            ("noise_decay", _decay(parts, decay, tau)),
        ):
            _set(parts["privacy"], name, setting)
        mechanism, chosen = calculator.mechanism_of(parts)
        summary = account(mechanism, exact=True, accountant=chosen)
        if as_json:
            print_json(calculator.report(mechanism, summary, parts["data"].get("num_records")))
        else:
            _print(mechanism, summary)


def _set(fields: dict[str, Any], name: str, value: Any) -> None:
    if value is not None:
        fields[name] = value


def _noise(noise_multiplier: float | None, target_epsilon: float | None) -> Any:
    from trainables.errors import InvalidInput

    if target_epsilon is None:
        return noise_multiplier
    if noise_multiplier is not None:
        raise InvalidInput("expected --noise-multiplier or --target-epsilon, got both")
    return {"target_epsilon": target_epsilon}


def _decay(parts: dict[str, Any], kind: str | None, tau: float | None) -> Any:
    if kind is None and tau is None:
        return None
    before = parts["privacy"].get("noise_decay", {"kind": "none", "tau": 0.0})
    if kind == "none" and tau is None:
        return {"kind": "none", "tau": 0.0}
    return {
        "kind": before["kind"] if kind is None else kind,
        "tau": before["tau"] if tau is None else tau,
    }


def _print(mechanism: Mechanism, summary: PrivacySummary) -> None:
    from rich.table import Table

    from sweep.planning import calculator
    from trainables.privacy.rounding import format_epsilon

    effective = summary.effective_noise_multiplier
    table = Table("what", "value", "how", title=f"{mechanism.engine}, delta {summary.delta:g}")
    how = f"{summary.accountant}{'' if summary.tight else ' (upper bound)'}"
    relation = summary.neighboring_relation
    sampling = mechanism.sampling
    for name, value, meaning in (
        ("epsilon", summary.epsilon, f"{how}, {relation}, {sampling}"),
        ("epsilon_paper", summary.epsilon_paper, "the paper's, no guarantee"),
        ("epsilon_rdp", summary.epsilon_rdp, "Rényi accounting, upper bound"),
        ("epsilon_replace_one", summary.epsilon_replace_one, "replace_one"),
    ):
        table.add_row(name, format_epsilon(value, digits=6), meaning)
    for name, value, meaning in (
        ("gaussian_mu", summary.gaussian_mu, "of the Gaussian mechanism with this epsilon"),
        (
            "max_tpr_1pct",
            summary.max_tpr_1pct,
            "at most found of the members, at 1 % false positives",
        ),
        (
            "max_tpr_01pct",
            summary.max_tpr_01pct,
            "at most found of the members, at 0.1 % false positives",
        ),
    ):
        table.add_row(name, format_epsilon(value), meaning)
    table.add_row("noise_multiplier", _figure(summary.noise_multiplier), "z0")
    ends = " .. ".join(_figure(value) for value in dict.fromkeys((effective[0], effective[-1])))
    table.add_row("effective_noise_multiplier", ends, "noise over sensitivity, by epoch")
    table.add_row(
        "sensitivity", f"{mechanism.sensitivity:g} C", calculator.sensitivity_reason(mechanism)
    )
    screen = console()
    screen.print(table)
    for reason in summary.unaccounted:
        screen.print(f"not accounted for: {reason}", soft_wrap=True)
    for line in calculator.differences(mechanism, summary):
        screen.print(line, soft_wrap=True)
    for warning in summary.warnings:
        screen.print(f"WARNING: {warning}", style="bold red", soft_wrap=True)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
