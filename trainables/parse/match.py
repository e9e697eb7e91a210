"""How well predicted programs match gold ones (Zhou et al. 2022; Mireshghallah et al.
2022).

Exact match compares whole graphs with anonymous strings. API match compares, for each
example, the complete sub-graphs below the nodes of a fixed list of API names. Node bag
and tuple match compare multisets of labels and edges. A prediction that is no program
matches nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trainables.errors import InvalidInput
from trainables.parse.function_types import occurrences
from trainables.parse.graph import STRING, Graph, graph, serialize
from trainables.parse.lispress import LispressError

ApiSet = Literal["smcalflow", "treedst"]
APIS: dict[ApiSet, frozenset[str]] = {
    "smcalflow": frozenset(
        (
            *(
                "Yield",
                "RecipientAvailability",
                "FindReports",
                "FindManager",
                "EventAttendance",
            ),
            *("FindEventWrapperWithDefaults", "RecipientWithNameLike"),
            *("UpdatePreflightEventWrapper", "UpdateCommitEventWrapper"),
            *("CreatePreflightEventWrapper", "CreateCommitEventWrapper"),
            *("DeletePreflightEventWrapper", "DeleteCommitEventWrapper"),
        )
    ),
    "treedst": frozenset(
        (
            *("plan", "Create", "Find", "Update", "Delete", "Book", "CheckExistence"),
            *("reference", "revise", "refer", "someSalient"),
        )
    ),
}


@dataclass(frozen=True, slots=True)
class Program:
    """A program prepared for comparison; `graph` is None for a malformed text."""

    graph: Graph | None
    exact: str = ""
    anonymous: str = ""

    @classmethod
    def of(cls, text: str) -> Program:
        """From its text, which may be malformed."""
        try:
            found = graph(text)
        except LispressError:
            return cls(None)
        return cls(found, serialize(found), serialize(found, anonymous=True))


@dataclass(frozen=True, kw_only=True)
class Match:
    """Precision and recall of an overlap of multisets, over `num_examples` that
    count.
    """

    precision: float
    recall: float
    num_examples: int

    @property
    def f1(self) -> float:
        """Harmonic mean; 0 where both are 0."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def exact_match(
    gold: Sequence[Program], predicted: Sequence[Program], *, anonymous: bool = True
) -> float:
    """Share of predictions whose graph is the gold one; with `anonymous` strings do not
    count.

    Numbers always count.
    """
    _refuse_unless_aligned(gold, predicted)
    right = (
        p.graph is not None
        and (p.anonymous == g.anonymous if anonymous else p.exact == g.exact)
        for g, p in zip(gold, predicted, strict=True)
    )
    return sum(right) / len(gold)


def api_match(
    gold: Sequence[Program],
    predicted: Sequence[Program],
    *,
    apis: frozenset[str],
    anonymous: bool = True,
) -> Match:
    """API precision and recall, averaged over the examples whose gold program has an
    API node.

    Two equal gold sub-graphs need two equal predictions (multisets).
    """
    _refuse_unless_aligned(gold, predicted)
    rows = []
    for g, p in zip(gold, predicted, strict=True):
        wanted = _subgraphs(g, apis, anonymous=anonymous)
        if wanted:
            rows.append((wanted, _subgraphs(p, apis, anonymous=anonymous)))
    return _macro(rows)


def node_bag(gold: Sequence[Program], predicted: Sequence[Program]) -> Match:
    """The tree as a bag of function types, averaged over examples; shares no
    structure.
    """
    _refuse_unless_aligned(gold, predicted)
    return _macro(
        [(_bag(g), _bag(p)) for g, p in zip(gold, predicted, strict=True) if _bag(g)]
    )


def tuple_match(gold: Sequence[Program], predicted: Sequence[Program]) -> Match:
    """Nodes and edges (parent, name, child) as one bag, strings anonymous, summed over
    examples.
    """
    _refuse_unless_aligned(gold, predicted)
    matched = wanted = found = 0
    for g, p in zip(gold, predicted, strict=True):
        right, guess = _tuples(g), _tuples(p)
        matched += (right & guess).total()
        wanted += right.total()
        found += guess.total()
    return Match(
        precision=matched / found if found else 0.0,
        recall=matched / wanted if wanted else 0.0,
        num_examples=len(gold),
    )


def function_recall(
    gold: Sequence[Program], predicted: Sequence[Program]
) -> dict[str, tuple[float, int]]:
    """For each function type of the gold programs: recall and gold occurrences, most
    first.
    """
    _refuse_unless_aligned(gold, predicted)
    matched: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    for g, p in zip(gold, predicted, strict=True):
        matched += _bag(g) & _bag(p)
        wanted += _bag(g)
    order = sorted(wanted, key=lambda name: (-wanted[name], name))
    return {name: (matched[name] / wanted[name], wanted[name]) for name in order}


def well_formed_rate(programs: Sequence[Program]) -> float:
    """Share of texts that are programs."""
    if not programs:
        raise InvalidInput("expected at least one program, got none")
    return sum(program.graph is not None for program in programs) / len(programs)


def api_set(gold: Sequence[Program]) -> ApiSet:
    """The API list of which more gold programs have a node."""

    def fits(names: ApiSet) -> int:
        return sum(not APIS[names].isdisjoint(_bag(program)) for program in gold)

    return max(APIS, key=fits)


def _subgraphs(
    program: Program, apis: frozenset[str], *, anonymous: bool
) -> Counter[str]:
    of = program.graph
    if of is None:
        return Counter()
    return Counter(
        serialize(of, index, anonymous=anonymous)
        for index, node in enumerate(of.nodes)
        if node.kind == "call" and node.label in apis
    )


def _bag(program: Program) -> Counter[str]:
    return Counter() if program.graph is None else Counter(occurrences(program.graph))


def _tuples(program: Program) -> Counter[tuple[str, ...]]:
    if program.graph is None:
        return Counter()
    nodes = program.graph.nodes
    labels = [STRING if node.kind == "string" else node.label for node in nodes]
    found = Counter[tuple[str, ...]]((label,) for label in labels)
    found.update(
        (labels[parent], name, labels[child])
        for parent, node in enumerate(nodes)
        for name, child in node.edges
    )
    return found


def _macro(rows: Sequence[tuple[Counter[str], Counter[str]]]) -> Match:
    """Means of precision and recall over (gold, predicted) bags; 0 / 0 is 0."""
    precision = recall = 0.0
    for wanted, found in rows:
        matched = (wanted & found).total()
        precision += matched / found.total() if found else 0.0
        recall += matched / wanted.total()
    n = max(len(rows), 1)
    return Match(precision=precision / n, recall=recall / n, num_examples=len(rows))


def _refuse_unless_aligned(
    gold: Sequence[Program], predicted: Sequence[Program]
) -> None:
    if len(gold) != len(predicted) or not gold:
        raise InvalidInput(
            f"expected as many predictions as gold programs ({len(gold)}) and at least"
            f" one, got {len(predicted)}"
        )
    for number, program in enumerate(gold, start=1):
        if program.graph is None:
            raise InvalidInput(
                f"expected a well-formed program in gold record {number}"
            )
