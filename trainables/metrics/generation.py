"""All metrics of generated text against human text at once, with the human ceiling
beside each.

Every figure of an overlap grows with the number of texts, so both sides are cut to one
size. The ceiling is the figure of human text: one random half of it against the other,
each half as large. Programs of the generated texts come from a parser, whose errors
affect every figure of them.

Words are the white-space tokens, case and punctuation kept; an overlap is |G and H| /
|H| of what occurs, and "top k" the share of the k most frequent types that both have
(Mireshghallah et al. 2022, Tables 1 and 8). They report a chi-square distance without
its formula. The half form below is bounded, symmetric and finite, and two random halves
of SMCalFlow lie .0033 apart in it, which is the size of the paper's ground truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from trainables.errors import InvalidInput
from trainables.figures import Figure, text_count, text_figure, text_rate, text_share
from trainables.metrics import text_space
from trainables.metrics.text_space import MAUVE, Features
from trainables.parse.function_types import occurrences
from trainables.parse.graph import graph, is_well_formed
from trainables.parse.lispress import LispressError

TOP = (10, 25, 50, 100)
WITHOUT_RECORDS = {  # texts at epsilon 0, which every generator must beat
    "random_words": "random words",
    "public_texts": "the public texts",
}
FIGURES = (
    text_rate(
        name="chi_square",
        label="chi-square distance of function types",
        better="lower",
        objective=True,
        is_listed=True,
        has_ceiling=True,
    ),
    text_figure(
        name="chi_square_full",
        label="chi-square distance, doubled",
        better="lower",
        has_ceiling=True,
    ),
    text_rate(
        name="total_variation",
        label="total variation of function types",
        better="lower",
        has_ceiling=True,
    ),
    text_figure(
        name="jensen_shannon",
        label="Jensen-Shannon divergence of function types",
        better="lower",
        unit="nats",
        has_ceiling=True,
    ),
    text_share(
        name="function_type_overlap",
        label="function-type overlap",
        objective=True,
        is_listed=True,
    ),
    text_rate(name="well_formed_rate", label="well-formed programs", better="higher"),
    text_count(name="num_function_types", label="function types"),
    *(
        text_share(
            name=f"function_top{k}",
            label=f"agreement on the {k} most frequent function types",
        )
        for k in TOP
    ),
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
    text_rate(
        name="parse_valid_rate", label="generated programs that parse", better="higher"
    ),
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
    text_share(
        name="word_type_overlap",
        label="word-type overlap",
        objective=True,
        is_listed=True,
    ),
    text_count(name="num_word_types", label="word types"),
    text_rate(name="distinct_rate", label="distinct texts", better="higher"),
    *(
        text_rate(name=f"{name}_{kind}", label=f"{label} of {words}")
        for name, label in (
            (MAUVE, "MAUVE"),
            ("word_type_overlap", "word-type overlap"),
        )
        for kind, words in WITHOUT_RECORDS.items()
    ),
)


@dataclass(frozen=True)
class Texts:
    """Utterances and their programs, None where one is unknown; None alone where all
    are.
    """

    utterances: Sequence[str]
    programs: Sequence[str | None] | None = None

    @property
    def known_programs(self) -> list[int]:
        """The records whose program is known."""
        return [
            i for i, program in enumerate(self.programs or ()) if program is not None
        ]

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
    states: Features | None = None,
) -> Figures:
    """Every figure of generated texts, None where it cannot be computed.

    `X_human_ceiling` is X of one half of the human texts against the other. With
    `mauve_texts` 0 MAUVE and neighbours are left out; MAUVE reads `states` of texts and
    is None without. Where some programs are unknown,
    figures of functions compare the known ones of both sides, equally many:
    `num_programs_compared`.

    Raises: InvalidInput where a side is empty, or a human program does not read.
    """
    n = min(len(generated.utterances), len(human.utterances))
    if n < 2:
        raise InvalidInput(f"expected at least 2 texts of each side, got {n}")
    rng = np.random.default_rng(seed)
    chosen = [
        sorted(rng.permutation(len(side.utterances))[:n].tolist())
        for side in (generated, human)
    ]
    ours, theirs = generated.select(chosen[0]), human.select(chosen[1])
    order = rng.permutation(n)
    half = n // 2
    halves = (
        theirs.select(order[:half].tolist()),
        theirs.select(order[half : 2 * half].tolist()),
    )
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
        for into, (one, other) in ((figures, (ours, theirs)), (ceiling, halves)):
            into |= text_space.figures(
                one.utterances,
                other.utterances,
                max_texts=mauve_texts,
                seed=seed,
                states=states,
            )
    for name, value in figures.items():
        found[name] = value
        if "num_" not in name and name not in _ONE_SIDED:
            found[f"{name}_human_ceiling"] = ceiling.get(name)
    return found


def without_records(
    public: Sequence[str], human: Sequence[str], *, seed: int, states: Features
) -> Figures:
    """MAUVE and word overlap of texts that no private record has shaped: the public
    ones, and as many of as many words, each drawn by its frequency in them.
    """
    if not vocabulary(public):
        return {}
    rng = np.random.default_rng([seed, 2])
    words = [word for text in public for word in text.split()]
    random = [" ".join(rng.choice(words, len(text.split()))) for text in public]
    n = min(len(public), len(human))
    order = rng.permutation(len(human))[:n]
    wanted = vocabulary(human[i] for i in order)
    found: Figures = {}
    for kind, texts in zip(WITHOUT_RECORDS, (random, public), strict=True):
        own = vocabulary(texts[i] for i in rng.permutation(len(texts))[:n])
        found[f"word_type_overlap_{kind}"] = overlap(own, wanted, "word of people")
        near = text_space.of_states(texts, human, states, seed=seed)
        found[f"{MAUVE}_{kind}"] = near[MAUVE]
    return found


def shape(
    utterances: Sequence[str], programs: Sequence[str] | None
) -> dict[str, float]:
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
_DISTANCES = ("chi_square", "chi_square_full", "total_variation", "jensen_shannon")


def _with_programs(
    generated: Texts, human: Texts, *, seed: int
) -> tuple[Texts, Texts, Texts, Texts]:
    """Equally many records of both sides whose programs are known, and two halves of
    the human ones. Without any human program: all of the generated ones.
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
    words, wanted = vocabulary(generated.utterances), vocabulary(human.utterances)
    return {
        "word_type_overlap": overlap(words, wanted, "word in the human texts"),
        "num_word_types": len(words),
        "distinct_rate": len(set(generated.utterances)) / len(generated.utterances),
    }


def vocabulary(texts: Iterable[str]) -> frozenset[str]:
    """The distinct tokens of texts."""
    return frozenset(token for text in texts for token in text.split())


def overlap(generated: Set[str], human: Set[str], what: str) -> float:
    """The share of `human` that `generated` has, in [0, 1].

    >>> overlap({"a", "c"}, {"a", "b"}, "word")
    0.5

    Raises: InvalidInput naming `what` for no human one.
    """
    if not human:
        raise InvalidInput(f"expected at least one {what}, got none")
    return len(generated & human) / len(human)


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
    p, q = (
        Counter(name for bag in bags for name in bag or ()) for bags in (ours, theirs)
    )
    found["num_function_types"] = len(p)
    what = "function type in the human programs"
    found["function_type_overlap"] = overlap(p.keys(), q.keys(), what)
    found |= {f"function_top{k}": top_k(p, q, k=k) for k in TOP}
    return found | (distances(p, q) if p else dict.fromkeys(_DISTANCES))


def top_k(generated: Mapping[str, int], human: Mapping[str, int], *, k: int) -> float:
    """Share of the k most frequent types that both have; of equal frequencies the first
    name.

    >>> top_k({"a": 3, "b": 2, "c": 1}, {"a": 1, "c": 1, "b": 1}, k=2)
    1.0
    """
    sides = (
        set(sorted(counts, key=lambda name: (-counts[name], name))[:k])
        for counts in (generated, human)
    )
    return len(set.intersection(*sides)) / k


def distances(
    generated: Mapping[str, int], human: Mapping[str, int]
) -> dict[str, float]:
    """How far the frequencies p and q of function types are from each other: the
    chi-square distance 1/2 sum (p - q)^2 / (p + q), in [0, 1] and 1 for disjoint types,
    its double, the total variation 1/2 sum |p - q|, and the mean of KL(p || m) and KL(q
    || m) with m = (p + q) / 2, in nats, in [0, ln 2].

    >>> round(distances({"a": 2, "b": 1}, {"a": 1, "b": 2, "c": 1})["chi_square"], 6)
    0.236364

    Raises: InvalidInput where a side has no occurrence.
    """
    from scipy.special import (
        rel_entr,
    )  # here, because planning reads what figures there are

    sides = []
    names = sorted(generated.keys() | human.keys())
    for side, counts in (("generated", generated), ("human", human)):
        row = np.array([counts.get(name, 0) for name in names], dtype=np.float64)
        if not row.sum() > 0:
            raise InvalidInput(
                f"expected function types in the {side} programs, got none"
            )
        sides.append(row / row.sum())
    used = sides[0] + sides[1] > 0  # a type of neither side adds nothing
    p, q = (side[used] for side in sides)
    middle, full = (p + q) / 2, float(((p - q) ** 2 / (p + q)).sum())
    information = float(rel_entr(p, middle).sum() + rel_entr(q, middle).sum()) / 2
    values = (full / 2, full, float(np.abs(p - q).sum() / 2), information)
    return dict(zip(_DISTANCES, values, strict=True))


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
