"""The privacy card: on one page what a trial's epsilon says, for whom, and what it leaves out.

Pure: `make` turns a mechanism and its figures into plain data for JSON, `to_markdown` turns that
into a page. The keys of the summary (`epsilon`, `delta`, ...) stand at the top level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trainables.figures import curator_only
from trainables.privacy import selected_card
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.summary import PrivacySummary, plain

_UNITS = {
    "record": "record",
    "group": "group of records",
    "couple": "couple of records whose programs were exchanged",
}
_RELATIONS = {
    "add_or_remove_one": "one {unit} more or less in the training set",
    "replace_one": "one {unit} of the training set replaced by any other",
}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a card states beyond the mechanism. `processes` is how many processes ran the
    `num_workers` of the mechanism; `datasets` maps a role ("training", ...) to a
    name; `step_audit` is the measured effective noise multiplier and its interval.
    """

    trial_id: str
    datasets: Mapping[str, str]
    processes: int = 1
    attempt: int = 1
    secure_noise: bool = False
    public_data: bool = False
    provenance: str = ""
    step_audit: Mapping[str, Any] | None = None


def make(mechanism: Mechanism, summary: PrivacySummary, *, facts: Facts) -> dict[str, Any]:
    """The card of one trial as plain data."""
    return {
        "trial_id": facts.trial_id,
        **summary.to_dict(),
        "guarantee": _guarantee(mechanism, summary),
        "unit": mechanism.unit,
        "covers": "the training records; validation and test records are not covered",
        "sensitivity": mechanism.sensitivity,
        "sample_rate": mechanism.sample_rate if mechanism.sampling == "poisson" else None,
        "steps": mechanism.steps,
        "mechanism": plain(asdict(mechanism)),
        "datasets": {role: {"name": name} for role, name in facts.datasets.items()},
        "public_data": facts.public_data,
        "provenance": facts.provenance,
        "randomness": _randomness(mechanism, facts),
        "workers": _workers(mechanism, facts.processes),
        "not_covered": list(_not_covered(mechanism)),
        "curator_only": list(curator_only()),
        "step_audit": None if facts.step_audit is None else plain(dict(facts.step_audit)),
        "sweep_total": None,
        "selection": None,
    }


def with_sweep(
    card: Mapping[str, Any],
    *,
    total: Mapping[str, Any],
    epsilon_selected: float | None = None,
    refused: str | None = None,
) -> dict[str, Any]:
    """The card with the sweep around the trial.

    `total` is the composition of all released trials (`epsilon`, `delta`, `accountant`,
    `neighboring_relation`, `num_releases`). `epsilon_selected` is the price of the best trial alone
    where the number of trials was drawn at random, `refused` says why there is none.
    """
    return {
        **card,
        "sweep_total": plain(dict(total)),
        "selection": plain({"epsilon_selected": epsilon_selected, "refused": refused}),
    }


def to_markdown(card: Mapping[str, Any]) -> str:
    """The card as one page."""
    lines = [f"# Privacy card of trial {card['trial_id']}", ""]
    lines += [f"> **Warning.** {warning}." for warning in card["warnings"]]
    lines += ["", card["guarantee"], "", "| figure | value | meaning |", "| --- | --- | --- |"]
    how = f"{card['accountant']}{'' if card['tight'] else ', an upper bound'}"
    relation = card["neighboring_relation"]
    rows = [
        ("epsilon", _figure(card["epsilon"]), f"{how}; {relation}"),
        ("delta", _figure(card["delta"]), "declared"),
        ("epsilon_rdp", _figure(card["epsilon_rdp"]), "Rényi accounting, an upper bound"),
        ("epsilon_replace_one", _figure(card["epsilon_replace_one"]), "one record replaced"),
        ("epsilon_paper", _figure(card["epsilon_paper"]), "formula of the paper, no guarantee"),
        ("noise multiplier", _figure(card["noise_multiplier"]), "z0, at epoch 0"),
        (
            "effective noise multiplier",
            _range(card["effective_noise_multiplier"]),
            "noise over sensitivity, first and last epoch",
        ),
        ("sensitivity", f"{_figure(card['sensitivity'])} C", "of the sum that a step releases"),
        ("steps", str(card["steps"]), f"{card['mechanism']['sampling']} sampling"),
    ]
    lines += [f"| {name} | {value} | {meaning} |" for name, value, meaning in rows]
    lines += _section("Why no finite epsilon holds", card["unaccounted"])
    lines += _section("Not covered", card["not_covered"])
    lines += _section("Randomness and workers", [*card["randomness"], card["workers"]])
    lines += _section("The sweep", _sweep(card))
    datasets = [f"{role}: {about['name']}" for role, about in card["datasets"].items()]
    if card["provenance"]:
        datasets.append(f"model: {card['provenance']}")
    lines += _section("Data", datasets)
    audit = card["step_audit"]
    if audit is not None:
        shown = ", ".join(f"{name} {_figure(value)}" for name, value in audit.items())
        lines += _section("Step audit", [shown])
    return "\n".join(lines) + "\n"


def _guarantee(mechanism: Mechanism, summary: PrivacySummary) -> str:
    unit = _UNITS[mechanism.unit]
    change = _RELATIONS[mechanism.neighboring_relation].format(unit=unit)
    if math.isinf(summary.epsilon):
        return f"**No finite epsilon holds** for {change}."
    return (
        f"The weights after every step are ({_up(summary.epsilon)}, {summary.delta:g})"
        f"-differentially private for {change}."
    )


def _not_covered(mechanism: Mechanism) -> Sequence[str]:
    found = [
        "curator-only figures, computed from private records without noise: "
        + ", ".join(curator_only())
        + ", and every other figure that is not named as public",
        "the validation and test sets: they are other data sets, and metrics on them are released"
        " without noise",
        "the choice of this trial among others, unless the sweep's total below is taken",
        "attacks on floating-point noise (Mironov 2012) and on timing",
        "de-duplication and splitting before training: epsilon is about the realised training set",
    ]
    if mechanism.unit == "couple":
        found.append(
            "one record more or less, which would couple other records anew: for one record"
            " replaced, epsilon_replace_one holds"
        )
    if mechanism.unit == "record":
        found.append("a person with several records, beyond what each single record is promised")
    if mechanism.sampling == "shuffle":
        found.append("whether a record took part at all: the guarantee is for replacing one")
    return found


def _randomness(mechanism: Mechanism, facts: Facts) -> list[str]:
    if mechanism.reproducible_noise:
        key = "the noise key follows from the public seed: the noise is known, for tests only"
    else:
        key = (
            f"noise, sampling coins and micro-batch assignment come from a secret key of attempt"
            f" {facts.attempt}, drawn by the operating system and kept out of logs, metrics and"
            " exports"
        )
    generator = "AES-256-CTR" if facts.secure_noise else "a statistical generator (not a cipher)"
    return [key, f"noise generator: {generator}", "the seed governs initialisation and dropout"]


def _workers(mechanism: Mechanism, processes: int) -> str:
    workers = mechanism.num_workers
    if processes < workers:
        return (
            f"the {workers} workers were logical, played by {processes} process"
            f"{'' if processes == 1 else 'es'}: not separate parties that hide from each other"
        )
    return f"{workers} worker{'' if workers == 1 else 's'}, each a process of its own"


def _sweep(card: Mapping[str, Any]) -> list[str]:
    total, selection = card["sweep_total"], card["selection"] or {}
    if "law" in selection:
        return selected_card.around(selection)
    if total is None:
        return ["no total was given: whoever saw other trials has learnt more than this card says"]
    relation = f", {total['neighboring_relation']}" if total.get("neighboring_relation") else ""
    lines = [
        f"all {total['num_releases']} released trials together: epsilon {_figure(total['epsilon'])}"
        f" at delta {_figure(total['delta'])} ({total['accountant']}{relation})"
    ]
    lines += [f"not accounted for in the total: {why}" for why in total.get("unaccounted", ())]
    if selection["epsilon_selected"] is not None:
        price = _figure(selection["epsilon_selected"])
        lines.append(f"the best trial alone, if no other left: epsilon {price}")
    elif selection["refused"]:
        lines.append(f"no cheaper price for the best trial alone: {selection['refused']}")
    return lines


def _section(title: str, items: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *(f"- {item}" for item in items)] if items else []


def _range(values: Sequence[Any]) -> str:
    ends = [_figure(value) for value in (*values[:1], *values[-1:])]
    return " .. ".join(dict.fromkeys(ends)) or "-"


def _up(value: float) -> str:
    """Four significant digits, never less than the value: a guarantee is not rounded down."""
    shown = f"{value:.4g}"
    return shown if float(shown) >= value else f"{value * (1 + 5e-4):.4g}"


def _figure(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, int | float) else str(value)
