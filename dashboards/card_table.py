"""The privacy card of a report's answer, as tables and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainables import catalogue, formats
from trainables.cards.page import percent
from trainables.privacy.rounding import format_epsilon

_FIGURES = (
    ("epsilon", "a guarantee"),
    ("delta", "the probability that epsilon does not bound"),
    ("gaussian_mu", "mu of the Gaussian mechanism that has this epsilon at this delta"),
    ("epsilon_replace_one", "one record replaced by another"),
    ("epsilon_rdp", "Rényi accounting, an upper bound"),
    ("epsilon_paper", "formula of the paper, no guarantee"),
    ("epsilon_one_trial", "of the trial, had nothing been chosen; no guarantee for the best one"),
    ("noise_multiplier", "z0, at epoch 0"),
    ("effective_noise_multiplier", "noise over sensitivity, first and last epoch"),
    ("sensitivity", "of the sum that a step releases, times C"),
    ("num_records", "n, the declared number of records (or groups) to train on"),
    ("expected_batch_size", "B, records (or groups) in a step, on average"),
    ("sample_rate", "q, share of them in a step, on average"),
    ("steps", "noisy steps in all"),
)
_ROUNDED_UP = ("epsilon", "gaussian_mu")
_RATES = (("0.1 %", "01pct"), ("1 %", "1pct"))


@dataclass(frozen=True, kw_only=True)
class ClaimRow:
    """The largest true-positive rate that a claim allows at a false-positive rate, and the largest
    that an attack reached; `measured` is None in the public view and where none was run.
    """

    fpr: str
    allowed: str
    measured: str | None
    attack: str | None


def rows(card: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(name, value, meaning) of the card's figures."""
    found = []
    for name, meaning in _FIGURES:
        value = card.get(name)
        if value is None:
            continue
        write = format_epsilon if name.startswith(_ROUNDED_UP) else formats.number
        if isinstance(value, Sequence) and not isinstance(value, str):
            ends = [value[0], value[-1]] if value and value[0] != value[-1] else list(value[:1])
            shown = " to ".join(write(float(end)) for end in ends)
        else:
            shown = write(float(value))
        found.append((name, shown, meaning))
    relation = card.get("neighboring_relation")
    if relation:
        accountant = str(card.get("accountant", ""))
        words = f"neighbours: {str(relation).replace('_', ' ')}"
        found.insert(1, ("accountant", accountant, words))
    return found


def claims(card: Mapping[str, Any], metrics: Mapping[str, float | None]) -> list[ClaimRow]:
    """What the claim allows a membership test, beside what the attacks of `metrics` reached."""
    found = []
    for words, name in _RATES:
        allowed = card.get(f"max_tpr_{name}")
        if allowed is None:
            continue
        reached = {
            attack: value
            for attack in catalogue.names("attacks")
            if catalogue.kind_of("attacks", attack) != "control"
            and (value := metrics.get(f"mia_{attack}_tpr_{name}")) is not None
        }
        best = max(reached, key=lambda attack: reached[attack], default=None)
        found.append(
            ClaimRow(
                fpr=words,
                allowed=percent(float(allowed)),
                measured=None if best is None else f"{100 * reached[best]:.2f} %",
                attack=best,
            )
        )
    return found


def lists(card: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """(title, sentences) of the rest of the card."""

    def several(name: str) -> list[str]:
        value = card.get(name)
        if not value:
            return []
        return [str(value)] if isinstance(value, str) else [str(item) for item in value]

    return [
        ("Warnings", several("warnings")),
        ("What nothing accounts for", several("unaccounted")),
        ("Against whom", several("adversary")),
        ("Covered", several("covers")),
        ("Not covered", several("not_covered")),
        ("Taken for public", several("public")),
        ("Attacked with", several("attacks")),
        ("Audit of the step", _audit(card.get("step_audit") or {})),
        ("Randomness and workers", [*several("randomness"), *several("workers")]),
        ("Where the weights come from", several("provenance")),
    ]


def _audit(audit: Mapping[str, Any]) -> list[str]:
    if not audit:
        return []
    shown = {key: formats.number(audit.get(key)) for key in ("claimed", "measured", "low", "high")}
    return [
        f"{audit.get('verdict')}: the effective noise multiplier, claimed {shown['claimed']},"
        f" was measured on adversarial records: {shown['measured']}, {shown['low']} to"
        f" {shown['high']}"
    ]
