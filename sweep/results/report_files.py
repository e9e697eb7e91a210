"""Writing a report: the page, its figures for print, its data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

from dashboards import figures, report, tables
from dashboards.results import Sweep
from sweep.results.report_data import gather
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidInput

PAGE = "report.html"


@dataclass(frozen=True, kw_only=True)
class Made:
    """What was written: the page, and the names of the files beside it."""

    sweep: Sweep
    page: Path
    beside: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The answer in words."""
        choice, chosen = self.sweep.choice, self.sweep.chosen
        if chosen is None:
            return choice.reason
        return (
            f"At epsilon <= {choice.epsilon_max:g}: {chosen.name} ({chosen.id})."
            f" {report.sentence(self.sweep)}"
        )

    def summary(self) -> dict[str, Any]:
        """The same for programs."""
        chosen = self.sweep.chosen
        return {
            "page": str(self.page),
            "bytes": self.page.stat().st_size,
            "beside": list(self.beside),
            "epsilon_max": self.sweep.choice.epsilon_max,
            "trial": self.sweep.choice.trial,
            "name": chosen.name if chosen else None,
            "chosen_by": self.sweep.choice.by or None,
            "reason": self.sweep.choice.reason or None,
            "metrics": dict(chosen.metrics) if chosen else None,
        }


def write(folder: SweepFolder, target: Path, *, epsilon_max: float, public: bool = False) -> Made:
    """Write the report of a sweep into `target`; files of an earlier report there are replaced.

    Raises: InvalidInput where no trial has finished or `target` is a file.
    """
    sweep = gather(folder, epsilon_max=epsilon_max, public=public)
    if target.exists() and not target.is_dir():
        raise InvalidInput(f"expected a folder for the report, got the file {target}")
    target.mkdir(parents=True, exist_ok=True)
    beside = []
    for name, text in tables.files(sweep).items():
        (target / name).write_text(text, encoding="utf-8")
        beside.append(name)
    # Equal results give equal bytes: no time of writing, no ids from a random salt.
    with matplotlib.rc_context({"svg.hashsalt": folder.name}):
        for name, drawn in figures.figures(sweep).items():
            drawn.savefig(target / f"{name}.png", dpi=160)
            drawn.savefig(target / f"{name}.svg", dpi=160, metadata={"Date": None})
            beside += [f"{name}.png", f"{name}.svg"]
    page = target / PAGE
    page.write_text(report.html(sweep, public=public), encoding="utf-8")
    return Made(sweep=sweep, page=page, beside=tuple(beside))
