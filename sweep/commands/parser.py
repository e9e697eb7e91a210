"""`sweep parser`: train a parser from pairs, parse a file with it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep.commands._shared import JsonFlag, console, overrides, print_json
from trainables.errors import InvalidInput

if TYPE_CHECKING:
    from trainables.data.pairs import PairCorpus


class Part(StrEnum):
    """A part of the official split."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class Literals(StrEnum):
    """What is written for strings and numbers."""

    COPY = "copy"
    ANON = "anon"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    parser = typer.Typer(help="Train a parser, parse with it.", no_args_is_help=True)
    app.add_typer(parser, name="parser")

    @parser.command()
    def train(
        name: Annotated[str, typer.Argument(metavar="NAME", help="A corpus of kind pairs.")],
        to: Annotated[Path, typer.Option(metavar="FOLDER", help="New folder of the parser.")],
        fields: Annotated[
            list[str],
            typer.Option("--set", metavar="FIELD=VALUE", help="A field of data, as path=mine."),
        ] = [],  # noqa: B006  typer copies it
        part: Annotated[Part, typer.Option(help="What it learns from.")] = Part.TRAIN,
        test: Annotated[
            Part | None, typer.Option(help="A part that it is scored on afterwards.")
        ] = None,
        without: Annotated[
            str | None,
            typer.Option(metavar="FUNCTION", help="Leave out the pairs that use it (NAME*)."),
        ] = None,
        epochs: Annotated[int, typer.Option(min=1)] = 16,
        literals: Annotated[
            Literals, typer.Option(help="Copy strings and numbers, or write placeholders.")
        ] = Literals.COPY,
        seed: Annotated[int, typer.Option(min=0)] = 0,
        as_json: JsonFlag = False,
    ) -> None:
        """Train a parser on pairs and save it. Training is not private."""
        from dataclasses import asdict

        from trainables.tasks.parsing import ParserSettings, evaluate, train_parser

        if to.exists() and any(to.iterdir() if to.is_dir() else [to]):
            raise InvalidInput(f"expected a new or empty folder, got {to}")
        corpus = _pairs(name, fields)
        pairs = _of_part(corpus, part)
        if without is not None:
            pairs = _without(pairs, without)
        judged = None if test is None else _of_part(corpus, test)
        out = console(stderr=True)
        trained = train_parser(
            pairs,
            settings=ParserSettings(epochs=epochs, literals=literals.value),
            seed=seed,
            report=lambda epoch, loss: out.print(f"epoch {epoch + 1}/{epochs}: loss {loss:.3f}"),
        )
        trained.save(to)
        facts: dict[str, Any] = {
            "parser": str(to),
            **trained.trained_on,
            "num_pairs": len(pairs),
        }
        if judged is not None:
            facts["scores"] = asdict(evaluate(trained, judged))
        if as_json:
            print_json(facts)
            return
        for key, value in {**facts, **facts.pop("scores", {})}.items():
            shown = f"{value:.4f}" if isinstance(value, float) else value
            console().print(f"{key:24} {shown}", markup=False, soft_wrap=True)

    @parser.command()
    def adapt(
        name: Annotated[str, typer.Argument(metavar="NAME", help="A corpus of kind pairs.")],
        without: Annotated[
            str, typer.Option(metavar="FUNCTION", help="What the public pairs lack (NAME*).")
        ],
        synthetic: Annotated[
            list[str],
            typer.Option(metavar="NAME=FILE", help="Generated utterances; may be repeated."),
        ] = [],  # noqa: B006  typer copies it
        fields: Annotated[
            list[str],
            typer.Option("--set", metavar="FIELD=VALUE", help="A field of data, as path=mine."),
        ] = [],  # noqa: B006  typer copies it
        public_fraction: Annotated[float, typer.Option(help="Share that is public.")] = 0.1,
        num_test: Annotated[int, typer.Option(min=1, help="Human pairs to judge by.")] = 2_000,
        steps: Annotated[int, typer.Option(min=1, help="Training steps of each parser.")] = 2_500,
        literals: Annotated[Literals, typer.Option()] = Literals.COPY,
        seed: Annotated[int, typer.Option(min=0)] = 0,
        as_json: JsonFlag = False,
    ) -> None:
        """Take a function out of the public pairs; see what synthetic text gives back.

        Rows: none, each synthetic set, full (the real private pairs). Its results are not private.
        """
        from sweep.settings import from_environment
        from sweep.synthesis.adaptation import run_adaptation
        from trainables.config import data_config

        out = console(stderr=True)
        found = run_adaptation(
            data_config(**{"name": name, **overrides(fields)}),
            data_dir=from_environment().data_dir,
            rule=without,
            public_fraction=public_fraction,
            synthetic=synthetic,
            num_test=num_test,
            steps=steps,
            literals=literals.value,
            seed=seed,
            report=lambda line: out.print(line, markup=False),
        )
        if as_json:
            print_json(found)
            return
        _print_rows(found)

    @parser.command()
    def apply(
        folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A saved parser.")],
        utterances: Annotated[
            Path, typer.Argument(metavar="FILE", help="JSON lines with utterance.")
        ],
        to: Annotated[Path, typer.Option(metavar="FILE", help="New file: utterance, lispress.")],
        as_json: JsonFlag = False,
    ) -> None:
        """Parse every utterance of a file."""
        import json

        from sweep.synthesis.score_texts import read_texts
        from trainables.tasks.parsing import load_parser

        if to.exists():
            raise InvalidInput(f"expected a new file, got {to}, which exists")
        if not to.parent.is_dir():
            raise InvalidInput(f"expected a folder to write to, got {to.parent}")
        texts = list(read_texts(utterances).utterances)
        programs = load_parser(folder).parse(texts)
        rows = (
            json.dumps({"utterance": text, "lispress": program}, ensure_ascii=False) + "\n"
            for text, program in zip(texts, programs, strict=True)
        )
        to.write_text("".join(rows), encoding="utf-8")
        if as_json:
            print_json({"file": str(to), "num_records": len(texts)})
            return
        console().print(f"{to}: {len(texts)} programs", markup=False, soft_wrap=True)


def _print_rows(found: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(
        "learnt from",
        "pairs",
        "with it",
        *(f"{kind} {part}" for part in ("with", "all", "without") for kind in ("EM", "P", "R")),
        title=f"{found['function']}: exact match, API precision and recall",
    )
    figures = ("exact_match_anonymous", "api_precision", "api_recall")
    for name, row in found["rows"].items():
        shown = [
            f"{row['scores'][part][figure]:.3f}" if part in row["scores"] else "-"
            for part in ("with", "all", "without")
            for figure in figures
        ]
        table.add_row(name, f"{row['num_pairs']:,}", f"{row['num_with_function']:,}", *shown)
    console().print(table)


def _pairs(name: str, fields: list[str]) -> PairCorpus:
    from sweep.settings import from_environment
    from trainables.config import data_config
    from trainables.data.pairs import open_pairs

    config = data_config(**{"name": name, **overrides(fields)})
    return open_pairs(config, data_dir=from_environment().data_dir)


def _of_part(pairs: PairCorpus, part: Part) -> PairCorpus:
    """Raises: InvalidInput where there is none."""
    found = pairs.of_part(part.value)
    if not len(found):
        there = ", ".join(sorted(set(pairs.parts)))
        raise InvalidInput(f"expected a part that is there ({there}), got {part.value}")
    return found


def _without(pairs: PairCorpus, rule: str) -> PairCorpus:
    """Raises: InvalidInput where no program uses the function, or all do."""
    from trainables.parse.function_types import predicate

    uses = predicate(rule)
    kept = [index for index, program in enumerate(pairs.programs) if not uses(program)]
    if len(kept) in (0, len(pairs)):
        raise InvalidInput(f"expected a function that some of the pairs use, got {rule!r}")
    return pairs.select(kept)
