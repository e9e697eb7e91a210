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
_SAMPLINGS = "shuffle, poisson or random_allocation"
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
        parts = _fields(config)
        _set(parts, "engine", engine)
        _set(parts["data"], "num_records", num_records)
        for name, value in (
            ("expected_batch_size", expected_batch_size),
            ("num_workers", num_workers),
            ("epochs", epochs),
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
        mechanism, chosen = _mechanism(parts)
        from trainables.accountants import account

        summary = account(mechanism, exact=True, accountant=chosen)
        if as_json:
            print_json(_report(mechanism, summary, parts["data"].get("num_records")))
        else:
            _print(mechanism, summary)


def _fields(config: Path | None) -> dict[str, Any]:
    """The parts of a config that accounting reads, as plain data; empty without a file."""
    if config is None:
        return {
            "engine": catalogue.marked("engines", "DEFAULT"),
            "data": {},
            "training": {},
            "privacy": {},
        }
    import yaml

    from trainables.config import parse
    from trainables.errors import InvalidInput

    try:
        fields = yaml.safe_load(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"cannot read config {config}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise InvalidInput(f"expected {config} to be YAML") from None
    if not isinstance(fields, dict):
        raise InvalidInput(f"expected {config} to hold the fields of a trial's config")
    whole = parse(fields).model_dump(mode="json")
    names = ["engine", "data", "training", "privacy"]
    if whole["task"] == "synthesis":  # its stages and histogram are part of the mechanism
        names += ["task", "model", "synthesis"]
    return {name: whole[name] for name in names}


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


def _mechanism_of_synthesis(parts: dict[str, Any]) -> tuple[Mechanism, str | None]:
    """All that a synthesis trial releases, and the chosen accountant."""
    from sweep.planning.accounting import size_of
    from sweep.settings import from_environment
    from trainables import accountants
    from trainables.config import parse

    config = parse(parts)
    number = config.data.num_records
    if number is None:
        number = parts["data"]["num_records"] = size_of(config, from_environment()).num_records
    _, mechanism = accountants.resolve(config, num_records=number)
    return mechanism, config.privacy.accountant


def _mechanism(parts: dict[str, Any]) -> tuple[Mechanism, str | None]:
    """The mechanism, its noise calibrated where a target is given, and the chosen accountant."""
    if parts.get("task") == "synthesis":
        return _mechanism_of_synthesis(parts)
    from dataclasses import replace

    from pydantic import ValidationError

    from trainables.config import (
        TargetEpsilon,
        TrainingConfig,
        engine_config,
    )
    from trainables.errors import InvalidInput
    from trainables.frozen import first_problem
    from trainables.privacy.from_config import build_from

    engine, given_delta = parts["engine"], parts["privacy"].get("delta")
    if engine not in catalogue.names("engines"):
        raise InvalidInput(f"expected engine to be one of {_ENGINES}, got {engine!r}")
    if given_delta is not None and not 0 < given_delta < 1:
        raise InvalidInput(f"expected 0 < delta < 1, got delta={given_delta:g}")
    try:
        privacy = engine_config(engine, parts["privacy"])
        _set_default_batch(parts["training"], privacy.microbatch_size or 1)
        training = TrainingConfig.model_validate(parts["training"])
    except ValidationError as error:
        raise InvalidInput(first_problem(error)) from None
    target = privacy.noise_multiplier
    if isinstance(target, TargetEpsilon):
        privacy = privacy.model_copy(update={"noise_multiplier": 1.0})
    num_records = parts["data"].get("num_records")
    if num_records is None and "name" in parts["data"]:
        parts["data"]["num_records"] = num_records = _size(parts["data"])
    if num_records is None:
        sampled = privacy.sampling not in (None, "shuffle")
        if sampled or privacy.delta is None:
            raise InvalidInput(
                "expected --num-records (or data.num_records in the config):"
                f" {'the sample rate' if sampled else 'the default delta'} depends on it"
            )
        # Shuffled epochs cost the same whatever the number of records is.
        num_records = training.expected_batch_size
    mechanism = build_from(engine, privacy, training=training, num_records=num_records)
    if isinstance(target, TargetEpsilon):
        from trainables.accountants import noise_for

        z = noise_for(
            mechanism, target_epsilon=target.target_epsilon, accountant=privacy.accountant
        )
        mechanism = replace(mechanism, noise_multiplier=z)
    return mechanism, privacy.accountant


def _size(data: dict[str, Any]) -> int | None:
    """n of a config's data set, counted where it is at hand; None where it is not."""
    from sweep.planning.accounting import size_of
    from sweep.settings import from_environment
    from sweep.store.data_sets import is_at_hand
    from trainables.config import parse

    config, settings = parse({"data": data}), from_environment()
    return size_of(config, settings).num_records if is_at_hand(config.data, settings) else None


def _set_default_batch(training: dict[str, Any], microbatch_size: int) -> None:
    """Without a batch size: the least of at least 64 that the workers can share."""
    workers = training.get("num_workers", 1)
    if "expected_batch_size" not in training and isinstance(workers, int) and workers > 0:
        share = workers * microbatch_size
        training["expected_batch_size"] = share * -(-64 // share)


def _report(
    mechanism: Mechanism, summary: PrivacySummary, num_records: int | None
) -> dict[str, Any]:
    """The summary, and the values of the mechanism that it follows from. What depends on a number
    of records that was not given is None.
    """
    return summary.to_dict() | {
        "engine": mechanism.engine,
        "sampling": mechanism.sampling,
        "noise_calibration": mechanism.noise_calibration,
        "group_scale": mechanism.group_scale,
        "num_workers": mechanism.num_workers,
        "microbatch_size": mechanism.microbatch_size,
        "num_microbatches": mechanism.num_microbatches,
        "num_records": num_records,
        "expected_batch_size": mechanism.expected_batch_size,
        "epochs": mechanism.epochs,
        "steps": None if num_records is None else mechanism.steps,
        "sensitivity": mechanism.sensitivity,
    }


def _print(mechanism: Mechanism, summary: PrivacySummary) -> None:
    from rich.table import Table

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
    table.add_row("sensitivity", f"{mechanism.sensitivity:g} C", _sensitivity_reason(mechanism))
    screen = console()
    screen.print(table)
    for reason in summary.unaccounted:
        screen.print(f"not accounted for: {reason}", soft_wrap=True)
    for line in _differences(mechanism, summary):
        screen.print(line, soft_wrap=True)
    for warning in summary.warnings:
        screen.print(f"WARNING: {warning}", style="bold red", soft_wrap=True)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _sensitivity_reason(mechanism: Mechanism) -> str:
    if mechanism.microbatch_size > 1:
        return f"one of {mechanism.microbatch_size} records can turn a clipped mean around"
    return "a record is replaced" if mechanism.sensitivity == 2 else "a record is added or removed"


def _differences(mechanism: Mechanism, summary: PrivacySummary) -> list[str]:
    """Why the sound figure is not the paper's."""
    if summary.epsilon_paper is None or not mechanism.is_private:
        return []
    found = []
    if mechanism.noise_calibration == "paper" and mechanism.num_workers > 1:
        root = mechanism.num_workers**0.5
        found.append(
            f"epsilon_paper takes the noise of {mechanism.num_workers} workers for z0, but"
            f" independent noise sums as a variance: z0 / {root:.3g}"
        )
    if mechanism.sensitivity == 2:
        found.append("epsilon_paper takes the sensitivity for C; here it is 2 C")
    if mechanism.group_scale != "none" and mechanism.noise_calibration == "paper":
        found.append(
            "epsilon_paper ignores that noise after the rescale is weakest where alpha_k is largest"
        )
    return found
