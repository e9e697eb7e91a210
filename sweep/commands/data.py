"""`sweep data`: the corpora of trials, and the user's files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sweep.commands import _imports as own
from sweep.commands._options import JsonFlag, Part, data_config_of
from sweep.commands._output import number, print_json, say, say_table

_Corpus = Annotated[
    str,
    typer.Argument(metavar="DATA", help="A corpus (see `sweep data list`) or a file."),
]
_Fields = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="A field of `data`, for a corpus given by name.",
    ),
]


data = typer.Typer(help="List, describe, check and convert corpora.")


@data.command("list")
def list_corpora(as_json: JsonFlag = False) -> None:
    """List every corpus, whether it is available, and where else it is published."""
    from sweep.planning.corpora import overview
    from sweep.settings import from_environment

    settings = from_environment()
    rows = overview(settings)
    if as_json:
        print_json("data list", {"data_dir": str(settings.data_dir), "corpora": rows})
        return
    cells = []
    for row in rows:
        size = "-" if row["num_records"] is None else f"{row['num_records']:,}"
        said = ("yes" if row[key] else "no" for key in ("at_hand", "public"))
        cells.append((row["name"], row["kind"], *said, size, row["description"]))
    head = ("corpus", "kind", "available", "public", "utterances", "description")
    say_table(head, cells, title="corpora")
    say(f"data directory: {settings.data_dir}")
    for row in rows:
        if row["source"] and not row["at_hand"]:
            say(
                f"{row['name']} is published at {row['source']}; put it in {row['path']}"
            )


@data.command()
@own.takes_source_options
def describe(
    name: _Corpus,
    fields: _Fields = [],  # noqa: B006  typer copies it
    *,
    options: own.Reading,
    as_json: JsonFlag = False,
) -> None:
    """Read a corpus and show its sizes, lengths and label counts, without any text."""
    if _is_corpus(name):
        facts = _facts(name, fields)
        if as_json:
            print_json("data describe", facts)
            return
        width = max(map(len, facts))
        for key, value in facts.items():
            shown = "; ".join(value) if isinstance(value, list) else _format(value)
            say(f"{key:{width}} {shown}")
        return
    from sweep.imports import inspection
    from trainables.data.storage import PARTS

    source = options.source(Path(name))
    found = inspection.inspect(source.located_utterances())
    sentences = [*inspection.doubts(source, found), *inspection.warnings(found)]
    by_kind = found.by_label
    if as_json:
        print_json(
            "data describe",
            {
                **inspection.figures(found),
                "labels": by_kind,
                "warnings": sentences,
                "reading": inspection.read_as(source),
                "num_problems": found.num_problems,
            },
        )
        return
    say(*inspection.reading(source))
    for kind, of in by_kind.items():
        if of:
            rows = [
                [label, str(counts.total()), *(str(counts[p]) for p in PARTS)]
                for label, counts in of.items()
            ]
            say_table([kind, "records", *PARTS], rows, right=True)
    for key, value in inspection.figures(found).items():
        say(f"{key:20} {_format(value)}")
    if found.num_problems:
        sentences.append(
            f"Records that cannot be read ({found.num_problems}) are in no count:"
            " `sweep data check` lists them."
        )
    say(*sentences, style="yellow")


@data.command()
@own.takes_source_options
def check(
    name: _Corpus,
    fields: _Fields = [],  # noqa: B006  typer copies it
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Label schema (JSON) to check a file against."
        ),
    ] = None,
    *,
    options: own.Reading,
    no_sample: own.NoSample = False,
    as_json: JsonFlag = False,
) -> None:
    """Read a whole corpus and report damaged records by file and line, without text.

    On a terminal it shows the first three records as they were read.

    At most five problems of a kind are listed and the others are counted. With --schema
    a label outside the schema is a problem. Warnings concern few records, rare labels,
    large groups, and near duplicates between parts. The exit code is 2 if there are
    problems.
    """
    if _is_corpus(name):
        facts = _facts(name, fields)
        if as_json:
            print_json("data check", {"ok": True, "num_records": facts["num_records"]})
            return
        say(
            f"{name} has no problem: {facts['num_records']} records,"
            f" {facts['num_duplicates']} duplicates dropped."
        )
        return
    from sweep.imports.inspection import (
        doubts,
        inspect,
        read_as,
        reading,
        warnings,
    )
    from trainables.data.schema import read_schema
    from trainables.errors import InvalidInput
    from trainables.formats import count

    labels = None if schema is None else read_schema(schema)
    source = options.source(Path(name))
    found = inspect(source.located_utterances(), labels)
    misread = list(doubts(source, found))
    if as_json:
        print_json(
            "data check",
            {
                "ok": not found.num_problems,
                "num_records": sum(found.parts.values()),
                "num_problems": found.num_problems,
                "problems": [
                    each for listed in found.problems.values() for each in listed
                ],
                "kinds": dict(found.kinds),
                "warnings": [*misread, *warnings(found)],
                "reading": read_as(source),
            },
        )
    else:
        say(*reading(source))
        own.say_samples(source, no_sample=no_sample)
        for kind, listed in found.problems.items():
            say(*listed)
            if more := found.kinds[kind] - len(listed):
                say(f"and {more} more of this kind")
        say(*misread, *warnings(found), style="yellow")
        if not found.num_problems and not misread:
            say(f"No problem in {count(found.num_read, 'record')}.")
    if found.num_problems:
        raise InvalidInput(
            f"expected a corpus without problems in {name}, got"
            f" {count(found.num_problems, 'problem')} in"
            f" {count(found.num_read, 'record')}"
        )


@data.command()
@own.takes_source_options
def convert(
    name: _Corpus,
    to: Annotated[
        Path,
        typer.Option(metavar="PATH", help="New file; a table where it ends with .csv."),
    ],
    fields: _Fields = [],  # noqa: B006  typer copies it
    only: Annotated[
        Part | None, typer.Option(help="Only the records of this part.")
    ] = None,
    *,
    options: own.Reading,
    skip_invalid: own.SkipInvalid = False,
    as_json: JsonFlag = False,
) -> None:
    """Convert a file, or a corpus, to JSON lines of this project or a table.

    A table has the columns text, intent, slots (in characters), part and group.
    """
    from sweep.imports.corpus import write_lines
    from sweep.imports.inspection import read_as, reading
    from sweep.planning.corpora import utterances_of
    from sweep.settings import from_environment
    from sweep.store.files import require_new_file

    require_new_file(to)
    source = None if _is_corpus(name) else options.source(Path(name))
    if source is None:
        found = utterances_of(data_config_of(name, fields), from_environment())
        located = ((name, each) for each in found)
    counted = write_lines(
        located if source is None else source.located_utterances(),
        to,
        lambda each: each if only in (None, each.part) else None,
        slots=source is None or source.has_slots,
        skip_invalid=skip_invalid,
    )
    num_invalid = counted.num_problems
    num_records = counted.num_read - num_invalid
    if as_json:
        print_json(
            "data convert",
            {
                "path": str(to),
                "num_records": num_records,
                "num_invalid": num_invalid,
                "reading": {} if source is None else read_as(source),
            },
        )
        return
    left = f", {num_invalid} left out" if num_invalid else ""
    said = () if source is None else reading(source)
    say(*said, f"{to}: {num_records} records{left}.")


def _is_corpus(name: str) -> bool:
    """Whether it names an entry of datasets; anything else is a file or folder.

    Raises: InvalidInput where it is none of these.
    """
    from trainables import catalogue
    from trainables.errors import InvalidInput

    names = catalogue.names("datasets")
    if name not in names and not Path(name).exists():
        raise InvalidInput(
            f"expected DATA to be a file, a folder or a corpus ({', '.join(names)}),"
            f" got {name!r}"
        )
    return name in names


def _format(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {count}" for key, count in value.items())
    return number(value, ".1f")


def _facts(name: str, fields: list[str]) -> dict[str, object]:
    from sweep.planning.corpora import describe
    from sweep.settings import from_environment

    return describe(data_config_of(name, fields), from_environment())
