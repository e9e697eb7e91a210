"""`sweep parser train` and `apply`: a parser from a corpus of pairs, programs of a
file.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweep.store.files import require_new_file, write_text
from sweep.synthesis.score_texts import read_texts
from trainables.data.pairs import PairCorpus
from trainables.data.records import Part
from trainables.errors import InvalidInput
from trainables.parse.function_types import predicate
from trainables.tasks.parsing import ParserSettings, evaluate, load_parser, train_parser


def train_on(
    corpus: PairCorpus,
    *,
    to: Path,
    part: Part,
    test: Part | None,
    without: str | None,
    settings: ParserSettings,
    seed: int,
    report: Callable[[int, float], None],
) -> dict[str, Any]:
    """Train on a part of a corpus and save into the folder `to`; the facts of both,
    with `scores` on the part `test`. `without` leaves out the pairs that use a
    function.

    Raises: InvalidInput for a part that the corpus lacks, or a function that no program
    uses, or all do.
    """
    pairs = _of_part(corpus, part)
    if without is not None:
        pairs = _without(pairs, without)
    tested = None if test is None else _of_part(corpus, test)
    trained = train_parser(pairs, settings=settings, seed=seed, report=report)
    trained.save(to)
    facts: dict[str, Any] = {
        "parser": str(to),
        **trained.trained_on,
        "num_pairs": len(pairs),
    }
    if tested is not None:
        facts["scores"] = asdict(evaluate(trained, tested))
    return facts


def parse_file(folder: Path, utterances: Path, to: Path) -> int:
    """Write utterance and program of every record of a file to the new file `to`;
    returns their number.

    Raises: InvalidInput for a parser or a file that cannot be read, or where `to`
    exists.
    """
    require_new_file(to)
    texts = list(read_texts(utterances).utterances)
    programs = load_parser(folder).parse(texts)
    rows = (
        json.dumps({"utterance": text, "lispress": program}, ensure_ascii=False) + "\n"
        for text, program in zip(texts, programs, strict=True)
    )
    write_text(to, "".join(rows))
    return len(texts)


def _of_part(pairs: PairCorpus, part: Part) -> PairCorpus:
    """Raises: InvalidInput where there is none."""
    found = pairs.select(index for index, own in enumerate(pairs.parts) if own == part)
    if not len(found):
        there = ", ".join(sorted(set(pairs.parts)))
        raise InvalidInput(f"expected a part of the corpus ({there}), got {part}")
    return found


def _without(pairs: PairCorpus, rule: str) -> PairCorpus:
    """Raises: InvalidInput where no program uses the function, or all do."""
    uses = predicate(rule)
    kept = [index for index, program in enumerate(pairs.programs) if not uses(program)]
    if len(kept) in (0, len(pairs)):
        raise InvalidInput(
            f"expected a function that some of the pairs use, got {rule!r}"
        )
    return pairs.select(kept)
