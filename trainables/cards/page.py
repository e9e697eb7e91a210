"""A privacy card as one page of Markdown."""

from collections.abc import Sequence
from typing import Any

from trainables.cards.card import PrivacyCard
from trainables.cards.selected import around
from trainables.dp.accounting.rounding import (
    format_delta,
    format_epsilon,
    percent,
    risk_sentences,
)
from trainables.figures import EPSILON, EPSILON_REPLACE_ONE

_FAILED_AUDIT = (
    "the audit of the step failed: its noise was measured below the claimed one, and"
    " epsilon may not hold"
)


def to_markdown(card: PrivacyCard) -> str:
    """The card as one page."""
    lines = [f"# Privacy card of trial {card.trial_id}", ""]
    failed = card.step_audit is not None and card.step_audit.verdict == "fail"
    loud = (*card.warnings, *([_FAILED_AUDIT] if failed else ()))
    lines += [f"> **Warning.** {warning}." for warning in loud]
    lines += [
        "",
        card.guarantee,
        *risk_sentences(card.max_tpr_1pct),
        "",
        "| figure | value | meaning |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {value} | {meaning} |" for name, value, meaning in rows(card)
    ]
    for title, items in sections(card):
        lines += ["", f"## {title}", "", *(f"- {item}" for item in items)]
    lines += [
        "",
        "## Review",
        "",
        "| reviewer | date | decision |",
        "| --- | --- | --- |",
    ]
    review = (card.review.reviewer, card.review.date, card.review.decision)
    lines.append(f"| {' | '.join(_cell(text) for text in review)} |")
    return "\n".join(lines) + "\n"


def sections(card: PrivacyCard) -> list[tuple[str, list[str]]]:
    """(title, sentences) of what follows the figures, those without a sentence left
    out.
    """
    found = (
        ("Why no finite epsilon holds", card.unaccounted),
        ("Against whom", [card.adversary]),
        ("Not covered", card.not_covered),
        ("Randomness and workers", [*card.randomness, card.workers]),
        ("The sweep", _sweep(card)),
        ("Data", _data(card)),
        ("Measured", _measurements(card)),
    )
    named = ((title, [item for item in items if item]) for title, items in found)
    return [(title, items) for title, items in named if items]


def rows(card: PrivacyCard) -> list[tuple[str, str, str]]:
    """Figures with what they mean; every epsilon is rounded up."""
    how = f"{card.accountant}{'' if card.tight else ', an upper bound'}{_whose(card, EPSILON)}"
    replaced = f"one record replaced{_whose(card, EPSILON_REPLACE_ONE)}"
    units = f"{card.unit}s"
    attacker = f"an attacker who tests whether one {card.unit} was trained on"
    found = [
        (
            "epsilon",
            format_epsilon(card.epsilon),
            f"{how}; {card.neighboring_relation}",
        ),
        ("delta", format_delta(card.delta), "declared"),
        (
            "mu",
            format_epsilon(card.gaussian_mu),
            "of the Gaussian mechanism that has this epsilon at this delta",
        ),
        ("largest TPR at 0.1 % FPR", percent(card.max_tpr_01pct), attacker),
        ("largest TPR at 1 % FPR", percent(card.max_tpr_1pct), attacker),
        ("largest TPR - FPR", percent(card.max_advantage), f"{attacker}, at any FPR"),
        (
            "epsilon_rdp",
            format_epsilon(card.epsilon_rdp),
            "Rényi accounting, an upper bound",
        ),
        ("epsilon_replace_one", format_epsilon(card.epsilon_replace_one), replaced),
        (
            "epsilon_paper",
            format_epsilon(card.epsilon_paper),
            "formula of the paper, no guarantee"
            + ("; it does not see alpha_k" if card.scales_groups else ""),
        ),
        ("noise multiplier", _figure(card.noise_multiplier), "z0, at epoch 0"),
        (
            "effective noise multiplier",
            _range(card.effective_noise_multiplier),
            "noise over sensitivity, first and last epoch",
        ),
        (
            "sensitivity",
            f"{_figure(card.sensitivity)} C",
            "of the sum that a step releases",
        ),
    ]
    declared = f"{units} to train on, declared"
    if card.num_records is None:
        declared = (
            f"{units} to train on: counted on private data, for the curator alone"
        )
    found += [
        ("n", _figure(card.num_records), declared),
        ("B", _figure(card.expected_batch_size), f"expected {units} in a step"),
        ("q", _figure(card.sample_rate), f"share of the {units} in a step, on average"),
        ("steps", _figure(card.steps), f"{card.sampling} sampling".strip()),
    ]
    return found


def _whose(card: PrivacyCard, figure: str) -> str:
    return ", by our own upper bound" if figure in card.own_bounds else ""


def _sweep(card: PrivacyCard) -> list[str]:
    total, selection = card.sweep_total, card.selection
    if selection is not None and selection.law is not None:
        return around(selection)
    if total is None:
        return [
            "no total was given: other trials of the sweep cost epsilon beyond this"
            " card"
        ]
    relation = f", {total.neighboring_relation}" if total.neighboring_relation else ""
    every = f"all {total.num_releases} released trials together"
    lines = [
        f"{'the only released trial' if total.num_releases == 1 else every}: epsilon"
        f" {format_epsilon(total.epsilon)} at delta {format_delta(total.delta)}"
        f" ({total.accountant}{relation})"
    ]
    lines += risk_sentences(total.max_tpr_1pct)
    lines += [f"not accounted for in the total: {why}" for why in total.unaccounted]
    if selection is not None and selection.refused:
        lines.append(f"no cheaper price for the best trial alone: {selection.refused}")
    return lines


def _data(card: PrivacyCard) -> list[str]:
    lines = [f"{role}: {data.name}" for role, data in card.datasets.items()]
    lines.append(f"covered: {card.covers}")
    if card.provenance:
        lines.append(f"model: {card.provenance}")
    if card.public_data:
        lines.append(
            "public: the data set, by its name: its number of records and its labels"
            " are taken as declared"
        )
    return [*lines, *(f"public: {what}" for what in card.public)]


def _measurements(card: PrivacyCard) -> list[str]:
    lines = []
    if card.attacks:
        lines.append(
            f"attacked with {', '.join(card.attacks)}: the figures are for the curator"
            f" alone"
        )
    if card.clipping_check is not None:
        beside = ", and units alone" if card.clipping_check.alone else ""
        lines.append(
            "clipped sums of a few random records of every epoch, recomputed in"
            f" float64{beside}: {card.clipping_check.verdict}, within"
            f" {_figure(card.clipping_check.tolerance)} C"
        )
    if card.step_audit is not None:
        figures = card.step_audit.model_dump(exclude_none=True)
        shown = ", ".join(f"{name} {_figure(value)}" for name, value in figures.items())
        lines.append(f"effective noise multiplier of the step, audited: {shown}")
    return lines


def _cell(text: str | None) -> str:
    """A reviewer's text, escaped for one cell of a table."""
    return " ".join((text or "").replace("|", "/").split())


def _range(values: Sequence[float]) -> str:
    ends = [_figure(value) for value in (*values[:1], *values[-1:])]
    return " .. ".join(dict.fromkeys(ends)) or "-"


def _figure(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
