"""The accounting of one mechanism from possibly incomplete parts of a config."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from search_spaces.expansion import counted_anew
from search_spaces.paths import set_all
from sweep.planning.accounting import size_of
from sweep.settings import from_environment
from sweep.store.data_sets import is_available
from trainables import catalogue
from trainables.config.calibrate import resolve
from trainables.config.trial import parse
from trainables.dp.accounting.summary import PrivacySummary
from trainables.dp.mechanism import Mechanism
from trainables.errors import InvalidInput, quote
from trainables.io.files import read_yaml


def fields_of(config: Path | None) -> dict[str, Any]:
    """The parts of a config that accounting reads, as plain data: engine, data,
    training and privacy, of a generating task also what its stages depend on. Without a
    file the default engine and empty sections.

    Raises: InvalidInput for a file that makes no config.
    """
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
    names = {"engine", "data", "training", "privacy"}
    if trial.generates:  # its stages and histogram are part of the mechanism
        names |= {"task", "model", "synthesis"}
    return trial.model_dump(mode="json", include=names)


_REPORTED = (  # values of a mechanism
    "engine",
    "sampling",
    "noise_calibration",
    "group_scale",
    "num_workers",
    "microbatch_size",
    "num_microbatches",
    "expected_batch_size",
    "epochs",
    "sensitivity",
)


def change(
    parts: dict[str, Any], options: Mapping[str, Any], *, assigned: Mapping[str, Any]
) -> dict[str, Any]:
    """The parts of a config with the fields that `--set` has assigned, and then those
    of `options`, by dotted path; None leaves a field as it is. Epochs replace steps,
    and steps epochs.

    Raises: InvalidInput where options give both, or a field of another section is
    assigned.
    """
    for path in assigned:
        if path.partition(".")[0] not in ("privacy", "training"):
            raise InvalidInput(
                f"expected --set with a field of privacy or training, got {quote(path)}"
            )
    given = {path: value for path, value in options.items() if value is not None}
    if given.keys() >= {"training.epochs", "training.steps"}:
        raise InvalidInput("expected --epochs or --steps, got both")
    for layer in (assigned, given):
        parts = set_all(counted_anew(parts, layer), layer.items())
    return parts


def noise(noise_multiplier: float | None, **targets: float | None) -> Any:
    """The value of the field noise_multiplier: a number, or a target by its name.

    Raises: InvalidInput where several are given.
    """
    given = {name: value for name, value in targets.items() if value is not None}
    if len(given) + (noise_multiplier is not None) > 1:
        raise InvalidInput(
            "expected --noise-multiplier, --target-epsilon or --target-tpr, got several"
        )
    return given or noise_multiplier


def mechanism_of(parts: dict[str, Any]) -> tuple[Mechanism, str | None]:
    """The mechanism, its noise calibrated where a target is given, and the chosen
    accountant. A number of records that is counted is set in `parts`.

    Raises: InvalidInput for parts that make no config, and without a number of records
        where the mechanism depends on it.
    """
    data, training, settings = parts["data"], parts["training"], from_environment()
    # Without a batch size the smallest one of at least 64 that the workers can share.
    share = training.get("num_workers", 1), parts["privacy"].get("microbatch_size") or 1
    if "expected_batch_size" not in training and all(
        isinstance(number, int) and number > 0 for number in share
    ):
        least = math.prod(share)
        training["expected_batch_size"] = least * math.ceil(64 / least)
    config, number = parse(parts), data.get("num_records")
    undeclared: tuple[str, ...] = ()
    is_public = config.data.is_public
    if (
        "name" in data
        and (number is None or not is_public)
        and (config.generates or is_available(config.data, settings))
    ):
        found = size_of(config, settings)
        data["num_records"] = number = number or found.num_records
        undeclared = found.undeclared
    if number is None:
        sampled = config.privacy.sampling not in (None, "shuffle")
        if sampled or config.privacy.delta is None:
            raise InvalidInput(
                "expected --num-records (or data.num_records in the config):"
                f" {'the sample rate' if sampled else 'the default delta'} depends on"
                f" it"
            )
        # Shuffled epochs cost the same whatever the number of records is.
        number = config.training.expected_batch_size
    _, mechanism = resolve(config, num_records=number, undeclared=undeclared)
    return mechanism, config.privacy.accountant


def report(
    mechanism: Mechanism, summary: PrivacySummary, num_records: int | None
) -> dict[str, object]:
    """The summary, and the values of the mechanism that determine it. Values that
    depend on a missing number of records are None.
    """
    return {
        **summary.to_dict(),
        **{name: getattr(mechanism, name) for name in _REPORTED},
        "num_records": num_records,
        "steps": None if num_records is None else mechanism.steps,
    }


def differences(mechanism: Mechanism, summary: PrivacySummary) -> list[str]:
    """The reasons why the sound epsilon of a mechanism differs from the paper's, one
    sentence each; empty where the paper's is not defined or nothing is private.
    """
    if summary.epsilon_paper is None or not mechanism.is_private:
        return []
    found = []
    if mechanism.noise_calibration == "paper" and mechanism.num_workers > 1:
        root = mechanism.num_workers**0.5
        found.append(
            f"epsilon_paper takes the noise of {mechanism.num_workers} workers for z0,"
            f" but independent noise sums as a variance: z0 / {root:.3g}"
        )
    if mechanism.sensitivity == 2:
        found.append("epsilon_paper takes the sensitivity for C; here it is 2 C")
    if mechanism.group_scale != "none" and mechanism.noise_calibration == "paper":
        largest = mechanism.largest_group_scale
        bound = "has no bound" if math.isinf(largest) else f"is at most {largest:g}"
        found.append(
            "epsilon_paper does not see alpha_k: noise after the rescale is weakest"
            f" where alpha_k is largest, and alpha_k {bound}"
        )
    return found
