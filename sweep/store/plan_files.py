"""The plan of a sweep on disk: `plan.json`, and what a search has chosen since, a line a choice.

A choice is added to the end of `chosen.jsonl`, so that it costs the same after ten thousand of
them; whoever writes the whole plan puts both together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweep.store import plans
from sweep.store.files import append_line, read_json, read_lines, write_json
from trainables.errors import InvalidData

PLAN, CHOSEN = "plan.json", "chosen.jsonl"


def read_plan(folder: Path) -> plans.Plan:
    """The plan, with all that was chosen.

    Raises: InvalidData for a damaged one.
    """
    plan = plans.from_dict(read_json(folder / PLAN))
    rows = _chosen(folder)
    if not rows:
        return plan
    known = {trial.id for trial in plan.trials}
    chosen = [trial for row in rows if (trial := plans.trial_from(row)).id not in known]
    return replace(plan, trials=(*plan.trials, *chosen))


def outline(folder: Path) -> list[tuple[str, bool]]:
    """Id of each trial, and whether it runs.

    Raises: InvalidData for a damaged plan.
    """
    planned = plans.outline(read_json(folder / PLAN))
    known = {trial_id for trial_id, _ in planned}
    chosen = plans.outline({"trials": _chosen(folder)})
    return [*planned, *(pair for pair in chosen if pair[0] not in known)]


def write_plan(folder: Path, plan: plans.Plan) -> None:
    """Put a plan in the place of what there is. A crash in between leaves what was chosen twice,
    which reads as once.
    """
    write_json(folder / PLAN, plan.to_dict())
    (folder / CHOSEN).unlink(missing_ok=True)


def add_choice(folder: Path, trials: Sequence[plans.PlannedTrial]) -> None:
    """Add the trials of one choice, all of them or none."""
    append_line(folder / CHOSEN, {"trials": [trial.to_dict() for trial in trials]})


def _chosen(folder: Path) -> list[dict[str, Any]]:
    try:
        return [row for line in read_lines(folder / CHOSEN) for row in line["trials"]]
    except (KeyError, TypeError):
        raise InvalidData(f"expected trials in every line of {folder / CHOSEN}") from None
