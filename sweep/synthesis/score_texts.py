"""Metrics of files of texts and programs for `sweep score`.

A record is an object with `utterance` and, where known, `lispress`, one a line, plain
or gzip; official dialogue files are read too. Errors name file and line, never a text.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from trainables.data.pairs import read_objects
from trainables.errors import InvalidData
from trainables.metrics import generation, parsing
from trainables.metrics.generation import Texts
from trainables.metrics.text_space import FEATURES, MAUVE, NGRAMS
from trainables.parse import match
from trainables.parse.graph import is_well_formed
from trainables.parse.match import ApiSet, Program


def score_generated(
    human: Path, synthetic: Path, *, mauve_texts: int, seed: int, parser: Path | None
) -> dict[str, float | int | str | None]:
    """Metrics of generated texts against human ones.

    With `parser`, a folder of `tasks.parsing`, it parses the synthetic utterances.
    Where the human programs are known, `X_ground_truth` is X of its parses of the human
    utterances, which shows the effect of its errors alone.

    Raises: InvalidInput for files that are damaged, or malformed human programs.
    """
    ours, theirs = read_texts(synthetic), read_texts(human, readable=True)
    measuring = None
    if parser is not None:
        from trainables.tasks.parsing import load_parser

        measuring = load_parser(parser)
        ours = Texts(ours.utterances, measuring.parse(ours.utterances))
    states = None
    if mauve_texts:
        from trainables.models.encoders import text_states

        states = text_states.TextStates()
    found: dict[str, float | int | str | None] = {
        **generation.score(
            ours, theirs, mauve_texts=mauve_texts, seed=seed, states=states
        ),
    }
    if mauve_texts:
        found |= {
            f"{MAUVE}_features": text_states.FEATURES,
            f"{NGRAMS}_features": FEATURES,
        }
    if measuring is not None and theirs.programs is not None:
        again = Texts(theirs.utterances, measuring.parse(theirs.utterances))
        same = generation.score(again, theirs, mauve_texts=0, seed=seed)
        found |= {
            f"{name}_ground_truth": value
            for name, value in same.items()
            if name.startswith(("function_", "chi_", "total_", "jensen_"))
            and not name.endswith("_human_ceiling")
        }
    return found


def score_predicted(
    gold: Path, predicted: Path, *, api_set: ApiSet | None, function: str | None
) -> dict[str, object]:
    """Metrics of predicted programs; with `function` also on the records with and
    without it.

    Raises: InvalidInput for files that are damaged or do not match, or a malformed gold
    program.
    """
    right, guess = _programs(gold), _programs(predicted)
    if len(right) != len(guess):
        raise InvalidData(
            f"expected as many records in {predicted} as in {gold} ({len(right)}), got"
            f" {len(guess)}"
        )
    for (where, utterance, _), (_, other, _) in zip(right, guess, strict=True):
        if utterance and other and utterance.split() != other.split():
            raise InvalidData(
                f"expected in {predicted} the utterance of {where}, got another"
            )
    golds = [Program.of(program) for _, _, program in right]
    guesses = [Program.of(program) for _, _, program in guess]
    api_set = api_set or match.api_set(golds)
    found: dict[str, object] = asdict(parsing.score(golds, guesses, api_set=api_set))
    found["api_set"] = api_set
    if function is not None:
        subsets = parsing.score_by_function(
            golds, guesses, rule=function, api_set=api_set
        )
        found["by_function"] = {
            name: asdict(scores) for name, scores in subsets.items()
        }
    recall = match.function_recall(golds, guesses)
    found["function_recall"] = {
        name: {"recall": value, "num_gold": count}
        for name, (value, count) in recall.items()
    }
    return found


def read_texts(path: Path, *, readable: bool = False) -> Texts:
    """Utterances of a file and their programs, None for a missing or empty one.

    Raises: InvalidData naming file and line; with `readable` also for a malformed
    program.
    """
    utterances: list[str] = []
    programs: list[str | None] = []
    for where, fields in read_objects(path):
        utterance = fields.get("utterance")
        if not isinstance(utterance, str):
            raise InvalidData(f"expected utterance to be a text in {where}")
        utterances.append(utterance)
        program = _program(fields, where) or None
        if readable and program is not None and not is_well_formed(program):
            raise InvalidData(
                f"expected well-formed human programs, got a malformed one in {where}"
            )
        programs.append(program)
    return Texts(utterances, programs if any(programs) else None)


def _programs(path: Path) -> list[tuple[str, str, str]]:
    """(where, utterance, program) of each record, which must have a program."""
    rows = []
    for where, fields in read_objects(path):
        if "lispress" not in fields:
            raise InvalidData(f"expected lispress in {where}, got none")
        rows.append(
            (where, str(fields.get("utterance") or ""), _program(fields, where))
        )
    return rows


def _program(fields: Mapping[str, object], where: str) -> str:
    program = fields.get("lispress") or ""
    if not isinstance(program, str):
        raise InvalidData(f"expected lispress to be a text in {where}")
    return program
