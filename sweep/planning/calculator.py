"""The accounting of one mechanism from possibly incomplete parts of a config."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from search_spaces.paths import set_all
from sweep.planning.accounting import size_of
from sweep.settings import from_environment
from sweep.store.data_sets import is_at_hand, open_data
from trainables import accountants, catalogue
from trainables.config import TargetEpsilon, parse, part
from trainables.errors import InvalidInput, quote
from trainables.files import read_yaml
from trainables.frozen import MAX_RECORDS
from trainables.guarantee.mechanism import Mechanism
from trainables.privacy.from_config import build_from
from trainables.privacy.summary import PrivacySummary


def fields_of(config: Path | None) -> dict[str, Any]:
    """The parts of a config that accounting reads, as plain data; empty without a file."""
    if config is None:
        return {
            "engine": catalogue.default("engines"),
            "data": {},
            "training": {},
            "privacy": {},
        }
    fields = read_yaml(config)
    if not isinstance(fields, dict):
        raise InvalidInput(f"expected {config} to hold the fields of a trial's config")
    trial = parse(fields)
    whole = trial.model_dump(mode="json")
    names = ["engine", "data", "training", "privacy"]
    if trial.generates:  # its stages and histogram are part of the mechanism
        names += ["task", "model", "synthesis"]
    return {name: whole[name] for name in names}


_TRAINING = ("expected_batch_size", "num_workers", "epochs", "steps")


def change(parts: dict[str, Any], values: dict[str, Any]) -> None:
    """Set fields of the parts of a config by their last names; None leaves a field as it is.
    Epochs replace the steps of a config, and steps its epochs.

    Raises: InvalidInput where both epochs and steps are given.
    """
    if values.get("epochs") is not None:
        if values.get("steps") is not None:
            raise InvalidInput("expected --epochs or --steps, got both")
        for name in ("steps", "evaluate_every"):
            parts["training"].pop(name, None)
    elif values.get("steps") is not None:
        parts["training"].pop("epochs", None)
    places = {"engine": parts, "num_records": parts["data"]}
    places |= dict.fromkeys(_TRAINING, parts["training"])
    for name, value in values.items():
        if value is not None:
            places.get(name, parts["privacy"])[name] = value


def set_fields(parts: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The parts with the values of fields of privacy and training by their paths.

    Raises: InvalidInput for another path.
    """
    for path in changes:
        if path.partition(".")[0] not in ("privacy", "training"):
            raise InvalidInput(
                f"expected --set with a field of privacy or training, got {quote(path)}"
            )
    return set_all(parts, changes.items())


def noise(noise_multiplier: float | None, target_epsilon: float | None) -> Any:
    """The value of the field noise_multiplier: a number, or a target.

    Raises: InvalidInput where both are given.
    """
    if target_epsilon is None:
        return noise_multiplier
    if noise_multiplier is not None:
        raise InvalidInput("expected --noise-multiplier or --target-epsilon, got both")
    return {"target_epsilon": target_epsilon}


def mechanism_of(parts: dict[str, Any]) -> tuple[Mechanism, str | None]:
    """The mechanism, its noise calibrated where a target is given, and the chosen accountant."""
    if "synthesis" in parts:
        return _mechanism_of_synthesis(parts)
    engine, given_delta = parts["engine"], parts["privacy"].get("delta")
    if engine not in catalogue.names("engines"):
        raise InvalidInput(
            f"expected engine to be one of {', '.join(catalogue.names('engines'))}, got {engine!r}"
        )
    if given_delta is not None and not 0 < given_delta < 1:
        raise InvalidInput(f"expected 0 < delta < 1, got delta={given_delta:g}")
    privacy = part("privacy", parts["privacy"], engine=engine)
    _set_default_batch(parts["training"], privacy.microbatch_size or 1)
    training = part("training", parts["training"], engine=engine)
    target = privacy.noise_multiplier
    if isinstance(target, TargetEpsilon):
        privacy = privacy.model_copy(update={"noise_multiplier": 1.0})
    undeclared = _undeclared_inputs(parts["data"])
    num_records = parts["data"].get("num_records")
    if num_records is None and "name" in parts["data"]:
        parts["data"]["num_records"] = num_records = _size(parts["data"])
    if num_records is not None and not 1 <= num_records <= MAX_RECORDS:
        raise InvalidInput(f"expected 1 <= num_records <= {MAX_RECORDS}, got {quote(num_records)}")
    if num_records is None:
        sampled = privacy.sampling not in (None, "shuffle")
        if sampled or privacy.delta is None:
            raise InvalidInput(
                "expected --num-records (or data.num_records in the config):"
                f" {'the sample rate' if sampled else 'the default delta'} depends on it"
            )
        # Shuffled epochs cost the same whatever the number of records is.
        num_records = training.expected_batch_size
    mechanism = build_from(
        engine, privacy, training=training, num_records=num_records, undeclared=undeclared
    )
    if isinstance(target, TargetEpsilon):
        z = accountants.noise_for(
            mechanism, target_epsilon=target.target_epsilon, accountant=privacy.accountant
        )
        mechanism = replace(mechanism, noise_multiplier=z)
    return mechanism, privacy.accountant


def report(
    mechanism: Mechanism, summary: PrivacySummary, num_records: int | None
) -> dict[str, Any]:
    """The summary, and the values of the mechanism that determine it. Values that depend on a
    missing number of records are None.
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


def sensitivity_reason(mechanism: Mechanism) -> str:
    """The reason for the sensitivity of a step."""
    if mechanism.microbatch_size > 1:
        return f"one of {mechanism.microbatch_size} records can reverse a clipped mean"
    return "a record is replaced" if mechanism.sensitivity == 2 else "a record is added or removed"


def differences(mechanism: Mechanism, summary: PrivacySummary) -> list[str]:
    """The reasons why the sound figure differs from the paper's."""
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
        largest = mechanism.largest_group_scale
        bound = "has no bound" if math.isinf(largest) else f"is at most {largest:g}"
        found.append(
            "epsilon_paper does not see alpha_k: noise after the rescale is weakest where alpha_k"
            f" is largest, and alpha_k {bound}"
        )
    return found


def _mechanism_of_synthesis(parts: dict[str, Any]) -> tuple[Mechanism, str | None]:
    """The mechanism of all releases of a synthesis trial, and the chosen accountant."""
    config = parse(parts)
    number, undeclared = config.data.num_records, tuple[str, ...]()
    if number is None:
        found = size_of(config, from_environment())
        number, undeclared = found.num_records, found.undeclared
        parts["data"]["num_records"] = number
    _, mechanism = accountants.resolve(config, num_records=number, undeclared=undeclared)
    return mechanism, config.privacy.accountant


def _size(data: dict[str, Any]) -> int | None:
    """n of a config's data set, counted where the data are available, else None."""
    config, settings = parse({"data": data}), from_environment()
    return size_of(config, settings).num_records if is_at_hand(config.data, settings) else None


def _undeclared_inputs(data: dict[str, Any]) -> tuple[str, ...]:
    """The inputs of a trial that would be read from private records, if these are available."""
    if "name" not in data:
        return ()
    config, settings = parse({"data": data}).data, from_environment()
    if catalogue.entry("datasets", config.name).PUBLIC or not is_at_hand(config, settings):
        return ()
    return open_data(config, settings).undeclared


def _set_default_batch(training: dict[str, Any], microbatch_size: int) -> None:
    """Set a missing batch size to the smallest one of at least 64 that the workers can share."""
    workers = training.get("num_workers", 1)
    if "expected_batch_size" not in training and isinstance(workers, int) and workers > 0:
        share = workers * microbatch_size
        training["expected_batch_size"] = share * -(-64 // share)
