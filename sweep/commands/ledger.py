"""`sweep ledger`: the spend of all sweeps together on each data set."""

from dataclasses import asdict
from typing import Annotated, Literal

import typer

from sweep.commands._options import JsonFlag
from sweep.commands._output import print_json, say, say_table


def ledger(
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATASET]", help="Key of a data set, a prefix of it, or a name."
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help="Delta of the composition; default: the smallest one charged."
        ),
    ] = None,
    by: Annotated[
        Literal["data", "sweep"],
        typer.Option(help="A row for each data set, or for each sweep on it alone."),
    ] = "data",
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Check the ledger against the epochs of all sweeps."
        ),
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="With --check: add missing charges.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show the privacy spend per data set, composed over all releases.

    --by sweep composes those of each sweep alone: the sums of such rows are no bound.

    --check reports damage to the ledger, and epochs of the sweeps in $SWEEP_HOME
    without an entry. The exit code is 1 for either. --repair only adds entries, which
    charge those epochs.
    """
    from sweep.planning.earlier_bounds import affected
    from sweep.settings import from_environment
    from sweep.spending.ledger import FILE, Ledger
    from sweep.spending.paid import require_whole_ledger
    from sweep.store import sweeps as store
    from trainables.dp.accounting.rounding import (
        format_delta,
        format_epsilon,
        risk_sentences,
    )
    from trainables.errors import InvalidInput

    if repair and not check:
        raise InvalidInput("expected --repair with --check")
    if check:
        _check(repair=repair, as_json=as_json)
        return
    if delta is not None and not 0 < delta < 1:
        raise InvalidInput(f"expected 0 < delta < 1, got delta={delta:g}")
    settings = from_environment()
    book = Ledger(settings.home / FILE)
    sweeps = store.sweeps(settings.home)
    require_whole_ledger(book, sweeps)
    unknown = book.without_hashes()
    names = {
        book.key.name_of(entry.dataset): entry.dataset_name for entry in book.entries()
    }
    wanted = [
        key
        for key, name in names.items()
        if dataset is None or key.startswith(dataset) or name == dataset
    ]
    if dataset is not None and not wanted:
        raise InvalidInput(f"expected a data set of the ledger, got {dataset!r}")
    if by == "sweep":
        spends = [each for key in wanted for each in book.by_sweep(key, delta=delta)]
    else:
        spends = [book.spend(key, delta=delta) for key in wanted]
    if as_json:
        earlier = [asdict(each) for each in affected(sweeps, settings)]
        print_json(
            "ledger", {"datasets": [asdict(s) for s in spends], "affected": earlier}
        )
        return
    if not spends:
        say("Nothing has been charged yet.")
        return
    rows = []
    for spend in spends:
        epsilon = format_epsilon(spend.total.epsilon)
        if spend.num_unaccounted:
            epsilon += f" ({format_epsilon(spend.accounted.epsilon)} for the rest)"
        notes = risk_sentences(spend.total.max_tpr_1pct)
        if spend.covers == "all":
            parts = [
                f"a {part} record {format_epsilon(each.epsilon)}"
                for part, each in spend.by_part.items()
            ]
            of_each = f" ({', '.join(parts)})" if parts else ""
            notes.append(f"covers every record of the file{of_each}")
        else:
            notes.append(
                "covers the training records alone; validation and test records have no"
                f" finite epsilon ({', '.join(spend.training_only)})"
            )
        notes += [
            f"shares {num} records with {other[:12]}"
            for other, num in spend.shared.items()
        ]
        if len(spend.by_unit) > 1:
            shares = [
                f"{unit}s {format_epsilon(s.epsilon)}"
                for unit, s in spend.by_unit.items()
            ]
            notes.append(f"each unit of privacy alone: {', '.join(shares)}")
        if unknown:
            of = (
                ""
                if spend.dataset in unknown
                else f" of {', '.join(n[:12] for n in unknown)}"
            )
            notes.append(
                f"records unknown{of}: charges to data sets that share records with"
                " them are not included"
            )
        row = (
            f"{spend.dataset_name} {spend.dataset[:12]}".strip(),
            *([spend.sweeps[0].rpartition("@")[0]] if by == "sweep" else []),
            str(spend.num_trials),
            epsilon,
            format_delta(spend.total.delta),
            spend.total.neighboring_relation or "-",
            str(spend.num_unaccounted),
            "; ".join(notes),
        )
        rows.append(row)
    head = (
        "data set",
        *(["sweep"] if by == "sweep" else []),
        "trials",
        "epsilon",
        "delta",
        "relation",
        "without guarantee",
        "note",
    )
    say_table(head, rows)
    for each in affected(sweeps, settings):
        say(
            f"{each.sweep}: the epsilon of {', '.join(each.trials)} may be larger than"
            f" said: an"
            f" earlier version let one record move the others, and {each.reason}"
        )


def _check(*, repair: bool, as_json: bool) -> None:
    from sweep.planning import ledger_check
    from sweep.settings import from_environment

    settings = from_environment()
    found = ledger_check.check(settings)
    left = ledger_check.repair(settings) if repair and found else found
    if as_json:
        print_json(
            "ledger --check",
            {
                "missing": [asdict(each) for each in found],
                "left": [asdict(each) for each in left],
            },
        )
    else:
        for each in found:
            where = f"{each.sweep}: " if each.sweep else ""
            done = "" if not repair or each in left else " (repaired)"
            say(f"{where}{each.problem}{done}")
        if not found:
            say("The ledger has every epoch of every sweep.")
    if left:
        raise typer.Exit(1)
