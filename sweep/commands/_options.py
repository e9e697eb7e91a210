"""Types of arguments and options that several commands share, and the parser of
`--set`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trainables.errors import InvalidInput

if TYPE_CHECKING:
    from trainables.config.trial import DataConfig

Part = Literal["train", "validation", "test"]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of a sweep (see `sweep list`).")
]
Space = Annotated[
    str,
    typer.Argument(
        metavar="SPACE",
        help="YAML file of a space or a config, or the name of a shipped one.",
    ),
]
Set = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override one field, such as training.epochs=3; a list makes an axis.",
    ),
]
DataFields = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="A field of data, such as path=mine.jsonl."
    ),
]
EpsilonMax = Annotated[
    float | None, typer.Option(min=0, help="Only trials with at most this epsilon.")
]
Factory = Annotated[
    str | None,
    typer.Option(
        metavar="PACKAGE.MODULE:FUNCTION",
        help="Function that builds your own model; its module is imported.",
    ),
]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri",
        metavar="URI",
        help="MLflow's store; default: $MLFLOW_TRACKING_URI, else SQLite under"
        " $SWEEP_HOME.",
    ),
]
Tracking = Annotated[
    Literal["mlflow", "none"] | None,
    typer.Option(
        "--tracking",
        help="Send the results to MLflow, or keep them on the disk alone; default:"
        " $SWEEP_TRACKING, else mlflow.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="A running Ray cluster; default: a local one."
    ),
]


def lines_of(what: str) -> Any:
    """The option of a file of JSON lines."""
    return typer.Option(metavar="FILE", help=f"JSON lines of {what}.")


def overrides(assignments: list[str]) -> dict[str, Any]:
    """Dotted paths and their values, read as YAML.

    >>> overrides(["training.epochs=3", "privacy.noise_decay={kind: linear, tau: 0.1}"])
    {'training.epochs': 3, 'privacy.noise_decay': {'kind': 'linear', 'tau': 0.1}}

    Raises: InvalidInput for what is no PATH=VALUE.
    """
    from trainables.errors import quote
    from trainables.io.documents import DocumentProblem, parse_yaml

    found: dict[str, Any] = {}
    for assignment in assignments:
        path, sign, text = assignment.partition("=")
        if not sign or not path:
            raise InvalidInput(f"expected --set PATH=VALUE, got {quote(assignment)}")
        try:
            found[path] = parse_yaml(text)
        except DocumentProblem as problem:
            raise InvalidInput(
                f"expected a YAML value in --set {quote(path)}: {problem}"
            ) from None
    return found


def data_config_of(name: str, assignments: list[str]) -> DataConfig:
    """The section `data` of a corpus and the words of `--set`. Raises: InvalidInput."""
    from trainables.config.trial import data_config

    return data_config(**{"name": name, **overrides(assignments)})
