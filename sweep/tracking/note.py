"""The description of a sweep's run in a tracking store, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sweep.results import select
from sweep.store.sweeps import TrialRecord
from sweep.tracking.text import escape
from trainables import figures, formats

LONGEST = 5_000  # characters that a store keeps of a description
_READING = (
    "`epsilon` is a guarantee of the code that ran; `epsilon_paper` is the paper's formula and"
    " none. `curator_only/...` is computed from private records without noise: no epsilon"
    " covers it."
)
EXPERIMENT = (
    "Every sweep is a run; its trials are its child runs (unfold them with the plus sign)."
    f" {_READING}"
)
_COLUMNS = (figures.EPSILON, figures.EPSILON_PAPER, "seconds")


def note(
    description: str, records: Sequence[TrialRecord], *, links: Sequence[tuple[str, str]] = ()
) -> str:
    """Best trials, the front, links and a table, the most useful first; never cut in a line.

    `links` are (words, address).
    """
    finished = [record for record in records if record.status.is_finished]
    parts = [escape(" ".join((description or "").split())), *_best(finished)]
    if links:
        parts.append(" · ".join(f"[{words}]({address})" for words, address in links))
    parts.append(_failures(records))
    if finished:
        parts += [
            _table(finished),
            f"Bold: on the front of {figures.label(select.headline(finished))} and epsilon.",
        ]
    parts.append(_READING)
    return _fitting([part for part in parts if part])


def trial_note(record: TrialRecord) -> str:
    """What a trial's run says of itself: what it is, what came out, what its epsilon is worth."""
    plan = record.plan
    kind = "the baseline" if plan.baseline else f"variant {escape(plan.variant)}"
    parts = [f"**{escape(plan.name)}**, {kind}, engine {escape(plan.engine)}: {record.status}."]
    if record.reason:
        parts.append(f"Why: {escape(record.reason)}.")
    main = select.headline([record])
    names = [name for name in (main, *_COLUMNS) if _value(record, name) is not None]
    if record.status.is_finished:
        parts.append(
            " · ".join(
                f"{figures.label(name)} **{formats.figure(name, select.value(record, name))}**"
                for name in names
            )
        )
    parts += [f"* {escape(warning)}" for warning in plan.warnings]
    return _fitting([*parts, _READING])


def _best(finished: Sequence[TrialRecord]) -> list[str]:
    """One line for each step of the front, from the smallest epsilon on."""
    front = [r for r in select.front(finished) if not r.plan.baseline]
    if not front:
        return []
    main = select.headline(finished)
    ordered = sorted(front, key=lambda r: select.value(r, figures.EPSILON) or 0.0)
    lines = [
        f"* epsilon {formats.epsilon(select.value(r, 'epsilon'))}: **{figures.label(main)}"
        f" {formats.figure(main, select.value(r, main))}**,"
        f" {escape(r.plan.name)}, {formats.duration(r.seconds)}"
        for r in ordered
    ]
    return ["**Best trial by epsilon**\n\n" + "\n".join(lines[:12])]


def _failures(records: Sequence[TrialRecord]) -> str:
    counts = {
        word: sum(record.status == word for record in records) for word in ("failed", "refused")
    }
    said = [f"{count} {word}" for word, count in counts.items() if count]
    return f"Of {formats.count(len(records), 'trial')}: {', '.join(said)}." if said else ""


def _table(records: Sequence[TrialRecord]) -> str:
    """Finished trials as a Markdown table of public figures, the front in bold."""
    best = {record.plan.id for record in select.front(records)}
    names = (select.headline(records), *_COLUMNS)
    heads = [figures.label(name) for name in names]
    lines = [f"| trial | {' | '.join(heads)} |", "|---" * (len(names) + 1) + "|"]
    for record in records:
        known = [(name, _value(record, name)) for name in names]
        cells = ["" if value is None else formats.figure(name, value) for name, value in known]
        name = escape(record.plan.name)
        name = f"**{name}**" if record.plan.id in best else name
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _value(record: TrialRecord, name: str) -> float | None:
    return None if record.plan.reveals_count(name) else select.value(record, name)


def _fitting(parts: Sequence[str]) -> str:
    """The parts, a paragraph each, as many whole lines of them as fit."""
    lines = "\n\n".join(parts).split("\n")
    kept: list[str] = []
    length = 0
    for line in lines:
        length += len(line) + 1
        if length > LONGEST - 40:
            return "\n".join([*kept, "", f"... and {len(lines) - len(kept)} more lines."])
        kept.append(line)
    return "\n".join(kept)
