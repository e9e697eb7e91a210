"""Adaptation of a parser to a new function by synthetic text (Mireshghallah et al. 2022, 5.4).

A function is removed from the public pairs. One parser is trained on those alone ("none"), one also
on the real private pairs ("full"), and one also on each annotated synthetic set. All are scored on
human pairs that use the function, and on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from trainables.data.pairs import Pair, PairCorpus
from trainables.errors import InvalidInput
from trainables.metrics import parsing as scores
from trainables.metrics.parsing import ParseScores
from trainables.parse.function_types import predicate
from trainables.parse.match import Program
from trainables.tasks.parsing import Parser, ParserSettings, gold_programs, train_parser

NONE, FULL = "none", "full"


@dataclass(frozen=True, kw_only=True)
class AdaptationRow:
    """One row: the parser's training data, and its scores "with", "all" and "without"."""

    num_pairs: int
    num_with_function: int
    scores: dict[str, ParseScores]


def adapt(
    public: PairCorpus,
    private: PairCorpus,
    synthetic: Mapping[str, Sequence[str]],
    test: PairCorpus,
    *,
    rule: str,
    settings: ParserSettings,
    steps: int,
    seed: int,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, AdaptationRow]:
    """A row for "none", each synthetic set of utterances, and "full".

    Each parser takes about `steps` steps, so that more pairs are not more training. The parser of
    "full" annotates the synthetic utterances in place of experts. It was trained on the private
    programs, so no result may be released.

    Raises: InvalidInput where the public pairs use the function, the test pairs do not, or a
    synthetic set is empty or has a row's name.
    """
    uses = predicate(rule)
    if any(map(uses, public.programs)):
        raise InvalidInput(f"expected public pairs without {rule!r}, some use it")
    for name, utterances in synthetic.items():
        if name in (NONE, FULL) or not utterances:
            raise InvalidInput(
                f"expected named, non-empty synthetic sets (not {NONE}, {FULL}), got {name!r} of"
                f" {len(utterances)}"
            )

    def learn(name: str, pairs: PairCorpus) -> tuple[Parser, AdaptationRow]:
        report(f"{name}: {len(pairs)} pairs")
        per_epoch = -(-len(pairs) // settings.batch_size)
        epochs = max(1, round(steps / per_epoch))
        parser = train_parser(pairs, settings=replace(settings, epochs=epochs), seed=seed)
        predicted = [Program.of(program) for program in parser.parse(test.utterances)]
        found = scores.score_by_function(gold_programs(parser, test), predicted, rule=rule)
        used = sum(map(uses, pairs.programs))
        return parser, AdaptationRow(num_pairs=len(pairs), num_with_function=used, scores=found)

    expert, full = learn(FULL, join(public, private))
    rows = {NONE: learn(NONE, public)[1]}
    for name, utterances in synthetic.items():
        programs = expert.parse(utterances)
        pairs = tuple(map(Pair, utterances, programs, [name] * len(utterances)))
        annotated = PairCorpus(name, pairs, public=False)
        rows[name] = learn(name, join(public, annotated))[1]
    return {**rows, FULL: full}


def join(one: PairCorpus, other: PairCorpus) -> PairCorpus:
    """The records of both, public where both are."""
    public = one.public and other.public
    return PairCorpus(f"{one.name}+{other.name}", one.pairs + other.pairs, public)
