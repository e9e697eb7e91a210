"""All metrics of generated text against human text at once, with the human ceiling beside each.

Every figure of an overlap grows with the number of texts, so both sides are cut to one size. The
ceiling is the figure of human text: one random half of it against the other, each half as large.
Programs of the generated texts come from a parser, whose errors affect every figure of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainables.errors import InvalidInput
from trainables.figures import Figure, text_count, text_figure, text_rate
from trainables.metrics import function_distance, function_overlap, mauve, neighbours, word_overlap
from trainables.parse.function_types import occurrences
from trainables.parse.graph import graph, is_well_formed
from trainables.parse.lispress import LispressError

FIGURES = (
    *(
        text_count(name=f"num_{name}", label=label)
        for name, label in (
            ("generated", "generated texts"),
            ("human", "human texts"),
            ("compared", "texts compared on each side"),
            ("programs_compared", "programs compared on each side"),
        )
    ),
    text_rate(name="empty_rate", label="empty texts", better="lower"),
    text_rate(name="parse_valid_rate", label="generated programs that parse", better="higher"),
    Figure(  # of the private records, so for the curator alone
        name="cut_rate",
        label="training records longer than synthesis.max_tokens",
        better="lower",
        task="synthesis",
        written="rate",
    ),
    text_figure(name="mean_words", label="words per text"),
    text_figure(
        name="fluency_loss",
        label="loss under a public language model",
        better="lower",
        unit="nats per token",
    ),
)


@dataclass(frozen=True)
class Texts:
    """Utterances and their programs, None where one is unknown; None alone where all are."""

    utterances: Sequence[str]
    programs: Sequence[str | None] | None = None

    @property
    def known_programs(self) -> list[int]:
        """The records whose program is known."""
        return [i for i, program in enumerate(self.programs or ()) if program is not None]

    def select(self, ids: Sequence[int]) -> Texts:
        """The records `ids`."""
        programs = None if self.programs is None else [self.programs[i] for i in ids]
        return Texts([self.utterances[i] for i in ids], programs)


Figures = dict[str, float | int | None]


def score(
    generated: Texts,
    human: Texts,
    *,
    seed: int = 0,
    mauve_texts: int = 2_000,
) -> Figures:
    """Every figure of generated texts, None where it cannot be computed.

    `X_human_ceiling` is X of one half of the human texts against the other. With `mauve_texts` 0
    MAUVE and neighbours are left out. Where some programs are unknown, figures of functions compare
    the known ones of both sides, equally many: `num_programs_compared`.

    Raises: InvalidInput where a side is empty, or a human program does not read.
    """
    n = min(len(generated.utterances), len(human.utterances))
    if n < 2:
        raise InvalidInput(f"expected at least 2 texts of each side, got {n}")
    rng = np.random.default_rng(seed)
    chosen = [
        sorted(rng.permutation(len(side.utterances))[:n].tolist()) for side in (generated, human)
    ]
    ours, theirs = generated.select(chosen[0]), human.select(chosen[1])
    order = rng.permutation(n)
    half = n // 2
    halves = theirs.select(order[:half].tolist()), theirs.select(order[half : 2 * half].tolist())
    found: Figures = {
        "num_generated": len(generated.utterances),
        "num_human": len(human.utterances),
        "num_compared": n,
    }
    figures, ceiling = _in_words(ours, theirs), _in_words(*halves)
    if generated.programs is not None:
        sides = ours, theirs, *halves
        if any(None in (side.programs or ()) for side in (generated, human)):
            sides = _with_programs(generated, human, seed=seed)
        found["num_programs_compared"] = len(
            sides[1 if human.programs is not None else 0].known_programs
        )
        figures |= _in_functions(sides[0], sides[1])
        ceiling |= _in_functions(sides[2], sides[3])
    if mauve_texts:
        figures |= _in_features(ours, theirs, max_texts=mauve_texts, seed=seed)
        ceiling |= _in_features(*halves, max_texts=mauve_texts, seed=seed)
    for name, value in figures.items():
        found[name] = value
        if "num_" not in name and name not in _ONE_SIDED:
            found[f"{name}_human_ceiling"] = ceiling.get(name)
    return found


def shape(utterances: Sequence[str], programs: Sequence[str] | None) -> dict[str, float]:
    """Figures of generated texts alone; `programs` are those that they were drawn from.

    >>> shape(["a b", ""], ["(f)", "(f"])
    {'empty_rate': 0.5, 'mean_words': 1.0, 'parse_valid_rate': 0.5}
    """
    found = {
        "empty_rate": sum(not text for text in utterances) / len(utterances),
        "mean_words": sum(len(text.split()) for text in utterances) / len(utterances),
    }
    if programs is not None:
        found["parse_valid_rate"] = sum(map(is_well_formed, programs)) / len(programs)
    return found


_ONE_SIDED = ("well_formed_rate", "distinct_rate")
_DISTANCES = {
    "chi_square": function_distance.value,
    "chi_square_full": function_distance.full,
    "total_variation": function_distance.total_variation,
    "jensen_shannon": function_distance.jensen_shannon,
}


def _with_programs(
    generated: Texts, human: Texts, *, seed: int
) -> tuple[Texts, Texts, Texts, Texts]:
    """Equally many records of both sides whose programs are known, and two halves of the human
    ones. Without any human program: all of the generated ones.
    """
    rng = np.random.default_rng([seed, 1])
    ids = [rng.permutation(side.known_programs).tolist() for side in (generated, human)]
    n = min(map(len, ids)) if human.programs is not None else len(ids[0])
    half = n // 2
    theirs = ids[1][:n]
    return (
        generated.select(sorted(ids[0][:n])),
        human.select(sorted(theirs)),
        human.select(theirs[:half]),
        human.select(theirs[half : 2 * half]),
    )


def _in_words(generated: Texts, human: Texts) -> Figures:
    return {
        "word_type_overlap": word_overlap.value(generated.utterances, human.utterances),
        "num_word_types": len(word_overlap.vocabulary(generated.utterances)),
        "distinct_rate": len(set(generated.utterances)) / len(generated.utterances),
    }


def _in_functions(generated: Texts, human: Texts) -> Figures:
    """Figures of programs, all of which are known."""
    found: Figures = {}
    ours, theirs = _bags(generated), _bags(human)
    if not ours:
        return found
    found["well_formed_rate"] = sum(bag is not None for bag in ours) / len(ours)
    if not theirs:
        return found
    if None in theirs:
        raise InvalidInput("expected well-formed human programs, got a malformed one")
    p, q = (function_overlap.count(bag or () for bag in bags) for bags in (ours, theirs))
    found["num_function_types"] = len(p)
    found["function_type_overlap"] = function_overlap.value(p, q)
    for k in function_overlap.TOP:
        found[f"function_top{k}"] = function_overlap.top_k(p, q, k=k)
    for name, distance in _DISTANCES.items():
        found[name] = distance(p, q) if p else None
    return found


def _in_features(generated: Texts, human: Texts, *, max_texts: int, seed: int) -> Figures:
    if min(len(generated.utterances), len(human.utterances)) < 10:
        return {"mauve": None}
    rows = mauve.features_of_both(
        generated.utterances, human.utterances, max_texts=max_texts, seed=seed
    )
    found = mauve.of_features(*rows, seed=seed)
    near = neighbours.of_features(*rows)
    return {
        "mauve": found.value,
        "mauve_smoothed": found.smoothed,
        "mauve_num_texts": found.num_texts,
        "mauve_num_clusters": found.num_clusters,
        "neighbour_precision": near.precision,
        "neighbour_recall": near.recall,
    }


def _bags(texts: Texts) -> list[tuple[str, ...] | None] | None:
    """Function types of each program; None for one that does not read."""
    if texts.programs is None:
        return None
    found: list[tuple[str, ...] | None] = []
    for program in texts.programs:
        assert program is not None  # see `_with_programs`
        try:
            found.append(occurrences(graph(program)))
        except LispressError:
            found.append(None)
    return found
