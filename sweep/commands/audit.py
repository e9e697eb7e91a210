"""`sweep audit`: test whether the privatised step satisfies its mechanism's claim."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.commands._options import JsonFlag, Set, overrides
from sweep.commands._output import print_json, say_table
from trainables import catalogue
from trainables.dp.accounting.rounding import format_epsilon, format_lower_bound
from trainables.errors import InvalidInput, TrialFailed

if TYPE_CHECKING:
    from trainables.config.trial import TrialConfig


def audit(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CONFIG.yaml]", help="Config of a trial; default: every engine."
        ),
    ] = None,
    calls: Annotated[int, typer.Option(help="Number of steps.", min=100)] = 600,
    assignments: Set = [],  # noqa: B006  typer copies it
    as_json: JsonFlag = False,
) -> None:
    """Run the private step on adversarial neighbouring data sets and measure its noise.

    Exit code 1 if the effective noise multiplier is below the claimed one.
    """
    from trainables.config.calibrate import resolve
    from trainables.dp.engines.step_audit import audit_step

    rows = []
    for name, trial in _configs(config, overrides(assignments)):
        _, mechanism = resolve(trial, num_records=trial.data.num_records or 2_560)
        found = audit_step(mechanism, calls=calls)
        rows.append({"mechanism": name, **asdict(found)})
    if as_json:
        print_json("audit", {"audits": rows})
    else:
        from rich.text import Text

        say_table(
            ("mechanism", "claimed", "measured", "interval", "step epsilon >=", ""),
            (
                (
                    str(row["mechanism"]),
                    f"{row['claimed']:.4f}",
                    f"{row['estimate']:.4f}",
                    "{:.4f} .. {:.4f}".format(*row["interval"]),
                    f"{format_lower_bound(row['epsilon_lower_bound'])} of"
                    f" {format_epsilon(row['epsilon_claimed'])}",
                    Text("passed", "green")
                    if row["passed"]
                    else Text("FAILED", "bold red"),
                )
                for row in rows
            ),
            title="step audit: effective noise multiplier of the code that runs",
            caption="passed: the whole interval is not below the claim",
            right=True,
        )
    failed = [str(row["mechanism"]) for row in rows if not row["passed"]]
    if failed:
        raise TrialFailed(f"the step violates its claim: {'; '.join(failed)}")


def _configs(
    path: Path | None, changes: dict[str, object]
) -> list[tuple[str, TrialConfig]]:
    from search_spaces import space
    from search_spaces.paths import set_all
    from trainables.config.trial import parse

    if path is not None:
        points = space.read(str(path), overrides=changes)
        if points.variants or points.axes:
            raise InvalidInput(
                f"expected one trial's config, got a space with axes in {path}"
            )
        return [(points.name, parse(set_all(points.base, points.override.items())))]
    found = []
    for engine in catalogue.names("engines", kind="private"):
        for own in catalogue.entry("engines", engine).audited:
            privacy = [str(own[path]) for path in own if path.startswith("privacy.")]
            fields = set_all({"engine": engine}, own.items(), changes.items())
            found.append((", ".join((engine, *privacy)), parse(fields)))
    return found
