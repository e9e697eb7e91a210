"""`sweep bench`: the cost of each engine relative to SGD, compared in one run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep.commands._options import JsonFlag, Set, overrides
from sweep.commands._output import console, number, print_json, say, say_table
from trainables.errors import InvalidInput

if TYPE_CHECKING:
    from sweep.bench.contestants import Spec
    from sweep.bench.outcome import Outcome


def bench(
    data: Annotated[str, typer.Option(help="Corpus (see `sweep data list`).")] = "atis",
    model: Annotated[str, typer.Option(help="clc or bert.")] = "clc",
    batch_size: Annotated[int, typer.Option(min=1, help="B, over all workers.")] = 64,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers that share a batch.")] = 1,
    repeats: Annotated[int, typer.Option(min=1, help="Measured steps per engine.")] = 10,
    engine: Annotated[
        list[str] | None, typer.Option(help="Only these engines (repeat the option).")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0, help="Processor time after which an engine is skipped.")
    ] = 15.0,
    memory: Annotated[
        bool, typer.Option(help="Also measure the peak memory of each engine.")
    ] = True,
    assignments: Set = [],  # noqa: B006  typer copies it
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a chart (.svg, .png or .pdf).")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Time a step of every engine and scale it to an epoch (table 2 of Dupuy et al. 2021).

    It measures SGD, eDP-SGD and DP-SGD of this project, a padded stock model with Adam, and a loop
    over records. All run in turn on the same records, with one thread each. Times are processor
    times.
    """
    if plot is not None and plot.suffix not in (".svg", ".png", ".pdf"):
        raise InvalidInput(f"expected --plot FILE.svg, .png or .pdf, got {plot.name}")
    spec = _spec(
        {
            "data.name": data,
            "model.name": model,
            "training.expected_batch_size": batch_size,
            "training.num_workers": workers,
        },
        overrides(assignments),
        engines=engine,
        repeats=repeats,
        seconds=seconds,
    )
    from sweep.bench.measure import measure

    if plot is not None:
        _require_factors(spec)
        plot.parent.mkdir(parents=True, exist_ok=True)
    out = console(stderr=True)
    with out.status("opening the data") as status:
        found = measure(spec, say=status.update, memory=memory)
    if plot is not None:
        _draw(found, plot)
    if as_json:
        print_json("bench", found.plain())
    else:
        _print(found)
        if plot is not None:
            say(f"picture: {plot}")


def _spec(
    options: dict[str, Any],
    assigned: dict[str, Any],
    *,
    engines: list[str] | None,
    repeats: int,
    seconds: float,
) -> Spec:
    """What is measured; a section that is `assigned` keeps the fields that options set in it."""
    from search_spaces.paths import section_fields, set_all
    from sweep.bench.contestants import BASELINE, ENGINES, Spec
    from sweep.settings import from_environment
    from trainables.config import parse

    chosen = tuple(ENGINES if not engines else dict.fromkeys(engines))
    for engine in chosen:
        if engine not in ENGINES:
            raise InvalidInput(f"expected --engine to be one of {', '.join(ENGINES)}, got {engine}")
    # More epochs than any trial has, so that steps never run out.
    base = {"training": {"epochs": 1000}}
    tree = set_all(base, options.items(), section_fields(assigned).items())
    settings = from_environment()
    spec = Spec(
        fields=tree,
        engines=tuple(name for name in ENGINES if name in chosen),
        repeats=repeats,
        workers=parse({**tree, "engine": BASELINE}).training.num_workers,
        seconds=seconds,
        data_dir=settings.data_dir,
        cache_dir=settings.cache_dir,
    )
    for name in spec.engines:
        spec.config(name)
    return spec


def _require_factors(spec: Spec) -> None:
    """Raises: InvalidInput without the engine that the factors of a chart are relative to."""
    from sweep.bench.contestants import BASELINE

    if BASELINE not in spec.engines:
        raise InvalidInput(
            f"expected {BASELINE} among the engines of --plot: factors are relative to its time"
        )


def _print(found: Outcome) -> None:
    from dashboards.bench import label

    rows = []
    for row in found.rows:
        cells = [label(row.engine), "skipped"]
        if row.skipped is None:
            low_high = row.x_sgd_quartiles
            cells[1:] = (
                number(row.step_ms, ".1f"),
                number(row.epoch_seconds, ",.1f"),
                number(row.x_sgd, ".2f"),
                "-" if low_high is None else f"{low_high[0]:.2f} .. {low_high[1]:.2f}",
                number(row.x_stock, ".2f"),
                number(row.peak_mib, ",.0f"),
            )
        rows.append(cells)
    say_table(
        ("engine", "ms a step", "s an epoch", "x SGD", "quartiles", "x stock", "peak MiB"),
        rows,
        title=f"{found.model}, {found.data}: {found.num_records:,} training records, batch"
        f" {found.batch_size}, workers {found.workers}, one thread each",
        caption="processor time, medians (quartiles of the ratio within a round); an epoch is"
        f" {found.steps_per_epoch:,} steps"
        + ("" if found.idle_mib is None else f"; an idle process: {found.idle_mib:,.0f} MiB"),
        right=True,
    )
    for row in found.rows:
        if row.skipped is not None:
            say(f"{label(row.engine)}: skipped, {row.skipped}")


def _draw(found: Outcome, place: Path) -> None:
    from dashboards.bench import Bar, figure

    bars = [
        Bar(
            engine=row.engine,
            factor=row.x_sgd,
            low=row.x_sgd_quartiles[0],
            high=row.x_sgd_quartiles[1],
            peak_mib=row.peak_mib,
        )
        for row in found.rows
        if row.x_sgd is not None and row.x_sgd_quartiles is not None
    ]
    title = (
        f"{found.model} on {found.data}, batch {found.batch_size}, workers {found.workers}:"
        " the cost of privacy"
    )
    figure(bars, title=title).savefig(place)
