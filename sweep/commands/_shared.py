"""Options and output that commands share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep.store.status import TrialStatus
from trainables.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from sweep.runtime.runner import Run
    from sweep.store.sweeps import SweepFolder, TrialRecord

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a sweep (see `sweep list`).")]
Space = Annotated[
    str,
    typer.Argument(metavar="SPACE", help="YAML file of a space or a config, or a shipped name."),
]
Set = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Override one field, such as training.epochs=3."
    ),
]

TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri",
        metavar="URI",
        help="MLflow's store; default: $MLFLOW_TRACKING_URI, else SQLite under $SWEEP_HOME.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="A running Ray cluster; default: a local one."),
]


def overrides(assignments: list[str]) -> dict[str, Any]:
    """Dotted paths and their values, read as YAML.

    >>> overrides(["training.epochs=3", "privacy.noise_decay={kind: linear, tau: 0.1}"])
    {'training.epochs': 3, 'privacy.noise_decay': {'kind': 'linear', 'tau': 0.1}}

    Raises: InvalidInput for what is no PATH=VALUE.
    """
    from trainables.documents import DocumentProblem, parse_yaml, shown

    found: dict[str, Any] = {}
    for assignment in assignments:
        path, sign, text = assignment.partition("=")
        if not sign or not path:
            raise InvalidInput(f"expected --set PATH=VALUE, got {shown(assignment)}")
        try:
            found[path] = parse_yaml(text)
        except DocumentProblem as problem:
            raise InvalidInput(f"expected a YAML value in --set {shown(path)}: {problem}") from None
    return found


def print_json(value: Any) -> None:
    """One JSON document on stdout; infinity is the string "inf"."""
    from trainables.privacy.summary import plain

    typer.echo(json.dumps(plain(value), indent=1, allow_nan=False))


def console(*, stderr: bool = False) -> Console:
    """Where people read."""
    from rich.console import Console

    out = Console(stderr=stderr, highlight=False)
    if not out.is_terminal:
        out.width = 140  # a file or a pipe has no edge at which tables must be cut
    return out


def summary(folder: SweepFolder) -> dict[str, Any]:
    """A sweep for programs: every trial, the front, the groups over seeds."""
    from sweep.results import select

    records = folder.records()
    baselines = select.baselines(records)
    return {
        "name": folder.name,
        "folder": str(folder.path),
        "running": folder.is_running,
        **folder.about(),
        "trials": [
            {
                "id": record.plan.id,
                "name": record.plan.name,
                "variant": record.plan.variant,
                "baseline": record.plan.baseline,
                "group": record.plan.group,
                "status": record.status,
                "reason": record.reason,
                "epochs_done": record.epochs_done,
                "epochs": record.plan.epochs,
                "seconds": record.seconds,
                "epsilon": select.value(record, "epsilon"),
                "epsilon_paper": select.value(record, "epsilon_paper"),
                "ser_ratio": select.ratio(record, "ser", baselines),
                "metrics": record.metrics,
                "config": record.plan.fields,
                "notes": list(record.notes),
                "violation": record.violation,
            }
            for record in records
        ],
        "front": [record.plan.id for record in select.front(records)],
    }


def finish(done: Run, *, as_json: bool, export: bool, epsilon_max: float | None = None) -> None:
    """Print what came of a run; exit with 1 where a trial failed."""
    from sweep.results.leakage_table import violations
    from sweep.results.selected_trial import sentence_of
    from sweep.results.table import results_table

    folder = done.folder
    records = folder.records(running=False)
    exported, of_it = _export_best(folder, epsilon_max) if export else (None, None)
    if as_json:
        extra = {
            "tracking_problem": done.tracking_problem,
            "exported": exported,
            "unrun": unrun(folder, records),
        }
        print_json({**summary(folder), **extra})
    else:
        out = console()
        out.print(results_table(folder.name, records))
        for sentence in violations(records):
            out.print(sentence, style="bold red", markup=False, soft_wrap=True)
        if (about_vault := sentence_of(folder)) is not None:
            out.print(about_vault, markup=False, soft_wrap=True)
        for sentence in unrun(folder, records):
            out.print(sentence, style="yellow", markup=False, soft_wrap=True)
        out.print(f"results: {folder.path} (`sweep show {folder.name}`)", markup=False)
        if of_it is not None:
            out.print(of_it, markup=False, soft_wrap=True)
        look = f"look: `sweep ui`; a page to hand on: `sweep report {folder.name}`"
        out.print(look, markup=False, soft_wrap=True)
        if done.tracking_problem is not None:
            out.print(
                f"MLflow is behind ({done.tracking_problem}); `sweep resume {folder.name}`"
                " delivers the rest.",
                markup=False,
                style="yellow",
                soft_wrap=True,
            )
    failed = sum(record.status is TrialStatus.FAILED for record in records)
    if failed:
        from trainables.errors import TrialFailed

        raise TrialFailed(f"{failed} of {len(records)} trials failed (`sweep show {folder.name}`)")


def unrun(folder: SweepFolder, records: Sequence[TrialRecord]) -> list[str]:
    """Why less was run than was asked for, in sentences."""
    from collections import Counter

    from sweep.search.source import ended_early

    waiting = [r for r in records if r.status.is_pending and r.reason]
    found = [
        f"{number} of {len(records)} trials did not run to their end: {reason}."
        for reason, number in Counter(str(record.reason) for record in waiting).items()
    ]
    if (sentence := ended_early(folder)) is not None:
        found.append(sentence)
    return found


def _export_best(folder: SweepFolder, epsilon_max: float | None) -> tuple[str | None, str | None]:
    """Export the best trial into the sweep's own folder: where it is, and a sentence that says so,
    or why there is none."""
    from sweep.results import select
    from sweep.results.export import export_trial
    from trainables.privacy.rounding import format_epsilon

    records = folder.records(running=False)
    if not any(r.status.is_finished and not r.plan.baseline for r in records):
        return None, None
    try:
        best = select.choose(records, epsilon_max=epsilon_max)[0]
    except InvalidInput as problem:
        return None, f"nothing is exported: {problem}"
    place = export_trial(folder, best, folder.path / "best")
    epsilon = format_epsilon(select.value(best, "epsilon"))
    return str(place), f"best: {place}, epsilon {epsilon} (`sweep run {place}/config.yaml`)"
