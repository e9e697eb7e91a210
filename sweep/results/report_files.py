"""Writes a report: the page, its charts for print, its tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dashboards import charts, report, tables
from dashboards.render import png
from dashboards.results import Sweep
from sweep.results.report_data import gather
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidInput

PAGE, CHARTS = "report.html", "charts"


@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    """The written page, and the names of its other files."""

    sweep: Sweep
    page: Path
    beside: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """The same for programs."""
        chosen = self.sweep.chosen_trial
        return {
            "page": str(self.page),
            "bytes": self.page.stat().st_size,
            "beside": list(self.beside),
            "epsilon_max": self.sweep.choice.epsilon_max,
            "trial": self.sweep.choice.trial,
            "name": chosen.name if chosen else None,
            "chosen_by": self.sweep.choice.by or None,
            "reason": None if chosen else self.sweep.answer[0],
            "metrics": dict(chosen.metrics) if chosen else None,
        }


def write(
    folder: SweepFolder,
    target: Path,
    *,
    epsilon_max: float,
    corpus: str | None = None,
    public: bool = False,
) -> ReportFiles:
    """Write the report of a sweep into `target`, replacing an earlier report.

    Raises: InvalidInput as `gather`, and where `target` is a file.
    """
    sweep = gather(folder, epsilon_max=epsilon_max, corpus=corpus, public=public)
    if target.exists() and not target.is_dir():
        raise InvalidInput(f"expected a folder for the report, got the file {target}")
    (target / CHARTS).mkdir(parents=True, exist_ok=True)
    _remove_earlier(target)
    beside = []
    for name, text in tables.files(sweep).items():
        (target / name).write_text(text, encoding="utf-8")
        beside.append(name)
    for chart in charts.every(sweep):
        (target / CHARTS / f"{chart.name}.png").write_bytes(png(chart))
        beside.append(f"{CHARTS}/{chart.name}.png")
    page = target / PAGE
    page.write_text(report.html(sweep, public=public), encoding="utf-8")
    return ReportFiles(sweep=sweep, page=page, beside=tuple(beside))


def _remove_earlier(target: Path) -> None:
    """Remove the files of an earlier report: one for the curator has more than a public one."""
    charted = [p for p in (target / CHARTS).glob("*.png") if p.name.startswith(charts.BEGINNINGS)]
    for path in (*charted, *(target / name for name in (PAGE, *tables.NAMES))):
        path.unlink(missing_ok=True)
