"""`sweep data`: the corpora that trials are trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep.commands._options import JsonFlag, overrides
from sweep.commands._output import console, print_json, say

if TYPE_CHECKING:
    from trainables.config import DataConfig

_Corpus = Annotated[str, typer.Argument(metavar="NAME", help="See `sweep data list`.")]
_Fields = Annotated[
    list[str],
    typer.Option("--set", metavar="FIELD=VALUE", help="A field of data, such as path=mine.jsonl."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    data = typer.Typer(help="List, describe, check and make corpora.", no_args_is_help=True)
    app.add_typer(data, name="data")

    @data.command("list")
    def list_corpora(as_json: JsonFlag = False) -> None:
        """List every corpus, and whether it is at hand."""
        from rich.table import Table

        from sweep.planning.corpora import overview
        from sweep.settings import from_environment

        settings = from_environment()
        rows = overview(settings)
        if as_json:
            print_json({"data_dir": str(settings.data_dir), "corpora": rows})
            return
        table = Table("corpus", "kind", "at hand", "public", "utterances", "what", title="corpora")
        for row in rows:
            size = "-" if row["num_records"] is None else f"{row['num_records']:,}"
            public = "yes" if row["public"] else "no"
            at_hand = "yes" if row["at_hand"] else "no"
            table.add_row(row["name"], row["kind"], at_hand, public, size, row["description"])
        console().print(table)
        say(f"data directory: {settings.data_dir}")

    @data.command()
    def describe(name: _Corpus, fields: _Fields = [], as_json: JsonFlag = False) -> None:  # noqa: B006  typer copies it
        """Read a corpus and show its sizes and label counts; never a text."""
        facts = _facts(name, fields)
        if as_json:
            print_json(facts)
            return
        for key, value in facts.items():
            shown = "; ".join(value) if isinstance(value, list) else value
            say(f"{key:20} {shown}")

    @data.command()
    def check(name: _Corpus, fields: _Fields = [], as_json: JsonFlag = False) -> None:  # noqa: B006  typer copies it
        """Read a corpus whole; the first damaged line is named by its file and number."""
        facts = _facts(name, fields)
        if as_json:
            print_json({"ok": True, "num_records": facts["num_records"]})
            return
        say(
            f"{name} is sound: {facts['num_records']} records,"
            f" {facts['num_duplicates']} duplicates dropped."
        )

    @data.command()
    def make(
        name: _Corpus,
        to: Annotated[Path, typer.Option(metavar="FILE", help="New file of JSON lines.")],
        num_utterances: Annotated[
            int | None, typer.Option(min=1_000, help="Size of a made corpus.")
        ] = None,
        seed: Annotated[int, typer.Option(min=0, help="Seed of a made corpus.")] = 0,
        as_json: JsonFlag = False,
    ) -> None:
        """Write a corpus as JSON lines, its label schema beside it: same seed, same bytes."""
        from sweep.planning.corpora import write_out
        from sweep.settings import from_environment

        fields = [f"seed={seed}"]
        if num_utterances is not None:
            fields.append(f"num_utterances={num_utterances}")
        written = write_out(_config(name, fields), from_environment(), target=to)
        facts = {
            "utterances": str(written.utterances),
            "schema": str(written.schema),
            "num_utterances": written.num_utterances,
        }
        if as_json:
            print_json(facts)
            return
        say(
            f"{written.utterances}: {written.num_utterances} utterances"
            f" (data.name=json_lines data.path={written.utterances}"
            f" data.schema_file={written.schema})"
        )


def _facts(name: str, fields: list[str]) -> dict[str, Any]:
    from sweep.planning.corpora import describe
    from sweep.settings import from_environment

    return describe(_config(name, fields), from_environment())


def _config(name: str, fields: list[str]) -> DataConfig:
    from trainables.config import data_config

    return data_config(**{"name": name, **overrides(fields)})
