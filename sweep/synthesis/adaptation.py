"""What `sweep parser adapt` does: the split of a synthesis trial, a row for each set of text."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sweep.synthesis.score_texts import read_texts
from trainables.config import DataConfig, SynthesisConfig
from trainables.data.pair_split import split_pairs
from trainables.data.pairs import open_pairs
from trainables.errors import InvalidInput
from trainables.frozen import first_problem
from trainables.tasks.adaptation import adapt
from trainables.tasks.parsing import ParserSettings


def run_adaptation(
    data: DataConfig,
    *,
    data_dir: Path,
    rule: str,
    public_fraction: float,
    synthetic: list[str],
    num_test: int,
    steps: int,
    literals: Any,
    seed: int,
    report: Any,
) -> dict[str, Any]:
    """The rows of `tasks.adaptation.adapt` as plain data; `synthetic` are NAME=FILE.

    Public, private and test pairs are those of a synthesis trial with the same data, share and
    function, so that text which such a trial generated knows none of the test pairs.

    Raises: InvalidInput for a set that is no NAME=FILE or cannot be read, and as `adapt` does.
    """
    sets: dict[str, list[str]] = {}
    for given in synthetic:
        name, sign, file = given.partition("=")
        if not sign or not name or name in sets:
            raise InvalidInput(f"expected --synthetic NAME=FILE, each name once, got {given!r}")
        texts = read_texts(Path(file)).utterances
        sets[name] = [text for text in texts if text.split()]
    pairs = open_pairs(data, data_dir=data_dir)
    if not pairs.has_programs:
        raise InvalidInput(f"expected a program for every pair, {pairs.name} lacks some")
    try:
        synthesis = SynthesisConfig(
            remove_function=rule, public_fraction=public_fraction, num_generated=num_test
        )
    except ValidationError as error:
        raise InvalidInput(first_problem(error)) from None
    split = split_pairs(pairs, data, synthesis)
    rows = adapt(
        pairs.select(split.public.tolist()),
        pairs.select(split.private.tolist()),
        sets,
        pairs.select(split.test.tolist()),
        rule=rule,
        settings=ParserSettings(literals=literals),
        steps=steps,
        seed=seed,
        report=report,
    )
    return {
        "function": rule,
        "num_test": len(split.test),
        "steps": steps,
        "rows": {name: asdict(row) for name, row in rows.items()},
    }
