"""`sweep attack`: the figures of anybody's membership attack, and the certified one-run bound."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sweep.commands._shared import JsonFlag, console, print_json
from trainables.errors import InvalidInput


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def attack(
        run: Annotated[
            str | None,
            typer.Argument(
                metavar="[RUN]", help="A saved model: an exported folder, or SWEEP/TRIAL."
            ),
        ] = None,
        members: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="With RUN: JSON lines it was trained on."),
        ] = None,
        non_members: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="With RUN: JSON lines it has never seen."),
        ] = None,
        scores: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="JSON lines with score (higher: member), member."),
        ] = None,
        one_run: Annotated[
            tuple[int, int, int] | None,
            typer.Option(metavar="M R V", help="Coins, guesses, right guesses of one run."),
        ] = None,
        delta: Annotated[
            float | None, typer.Option(help="delta of the epsilon that is bounded.")
        ] = None,
        epsilon: Annotated[
            float | None, typer.Option(min=0, help="With --scores: a claim to compare with.")
        ] = None,
        p: Annotated[float, typer.Option(help="Error of the certified bound.")] = 0.05,
        roc: Annotated[
            bool, typer.Option(help="With --scores or RUN: the ROC's points too.")
        ] = False,
        as_json: JsonFlag = False,
    ) -> None:
        """Attack a saved model, judge anybody's scores, or bound epsilon from one run's guesses."""
        if sum(given is not None for given in (run, scores, one_run)) != 1:
            raise InvalidInput("expected one of RUN, --scores FILE and --one-run M R V")
        if run is not None:
            found = attack_run(run, members, non_members, delta=delta, roc=roc)
        elif one_run is not None:
            if delta is None:
                raise InvalidInput("expected --delta with --one-run")
            found = bound(*one_run, delta=delta, p=p)
        else:
            assert scores is not None  # one of the two is there
            found = judge(scores, delta=delta, epsilon=epsilon, roc=roc)
        if as_json:
            print_json(found)
            return
        from rich.table import Table

        table = Table("figure", "value")
        for name, value in found.items():
            if name not in ("roc", "notes"):
                table.add_row(name, f"{value:.6g}" if isinstance(value, float) else str(value))
        console().print(table)
        for note in found.get("notes", ()):
            console(stderr=True).print(note, style="yellow", markup=False, soft_wrap=True)


def attack_run(
    run: str, members: Path | None, non_members: Path | None, *, delta: float | None, roc: bool
) -> dict[str, Any]:
    """The attacks on a saved model; without files, what the sweep has found of that trial.

    Raises: InvalidInput for a run or files that cannot be used.
    """
    from sweep.results import attack_model
    from sweep.settings import from_environment
    from sweep.store import sweeps as store
    from trainables.figures import is_public

    settings = from_environment()
    folder = attack_model.folder_of(run, settings)
    if (members is None) != (non_members is None):
        raise InvalidInput("expected both --members FILE and --non-members FILE, got one")
    if members is not None and non_members is not None:
        figures, curves, notes = attack_model.measure(
            folder, members=members, non_members=non_members, delta=delta or 1e-5
        )
        found: dict[str, Any] = {**figures}
        if notes:
            found["notes"] = list(notes)
        return found | ({"roc": curves} if roc else {})
    sweep = store.SweepFolder(folder.parent.parent)
    if folder.parent.name != "trials" or not (sweep.path / "plan.json").exists():
        raise InvalidInput(
            f"expected --members FILE and --non-members FILE for {run}: an exported folder holds no"
            " membership figures"
        )
    (record,) = (r for r in sweep.records() if r.plan.id == folder.name)
    kept = {n: v for n, v in record.metrics.items() if not is_public(n) and v is not None}
    if not any(name.startswith("mia_") for name in kept):
        raise InvalidInput(f"expected a finished trial with attacks, got {run} ({record.status})")
    from trainables import evidence

    return kept | ({"roc": evidence.read_curves(folder)} if roc else {})


def bound(
    num_units: int, num_guesses: int, num_correct: int, *, delta: float, p: float
) -> dict[str, Any]:
    """The certified bound of Steinke et al. 2023, and the f-DP estimate beside it.

    Raises: InvalidInput for counts, delta or p that cannot be.
    """
    from trainables.attacks import one_run

    counts = (num_units, num_guesses, num_correct)
    return {
        "epsilon_lower_bound": one_run.epsilon_lower_bound(*counts, delta=delta, p=p),
        "epsilon_estimate_fdp": one_run.epsilon_estimate_fdp(*counts, delta=delta, p=p),
        "delta": delta,
        "p": p,
        "num_units": num_units,
        "num_guesses": num_guesses,
        "num_correct": num_correct,
    }


def judge(path: Path, *, delta: float | None, epsilon: float | None, roc: bool) -> dict[str, Any]:
    """Every figure of the scores in a file.

    With `delta` also the epsilons that they suggest (no certificate); with `epsilon` as well, which
    bounds of that claim they break (`inconsistent_with_claim`).

    Raises: InvalidInput for a file that is damaged or lacks members or non-members.
    """
    from sweep.store.line_files import read_scores
    from trainables.attacks import estimates
    from trainables.metrics import membership

    if delta is not None and not 0 <= delta < 1:
        raise InvalidInput(f"expected 0 <= delta < 1, got delta={delta}")
    if epsilon is not None and delta is None:
        raise InvalidInput("expected --delta with --epsilon")
    values, member = read_scores(path)
    found: dict[str, Any] = {
        name: _plain(name, value) for name, value in membership.figures(values, member).items()
    }
    if delta is not None:
        found |= estimates(values, member, delta=delta)
    if epsilon is not None and delta is not None:
        broken = membership.dp_inconsistencies(values, member, epsilon=epsilon, delta=delta)
        found["inconsistent_with_claim"] = list(broken)
    if roc:
        found["roc"] = membership.log_curve(membership.roc(values, member))
    return found


def _plain(name: str, value: float) -> float | int | bool:
    """Marks as booleans and counts as integers, which a tracker has as numbers only."""
    if name.endswith("_low_resolution"):
        return bool(value)
    return int(value) if name.startswith("num_") else value
