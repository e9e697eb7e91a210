"""All parse metrics of predictions at once, also on the records with and without one
function.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainables.errors import InvalidInput
from trainables.parse import match
from trainables.parse.function_types import predicate
from trainables.parse.match import APIS, ApiSet, Program


@dataclass(frozen=True, kw_only=True)
class ParseScores:
    """Figures of one set of records, each in [0, 1].

    `exact_match_anonymous` is the paper's EM, `api_*` its API match; `*_literal`
    compare strings too. `num_api_examples` records have an API node and are averaged
    over.
    """

    num_records: int
    well_formed_rate: float
    exact_match_anonymous: float
    exact_match_literal: float
    api_precision: float
    api_recall: float
    api_precision_literal: float
    api_recall_literal: float
    num_api_examples: int
    node_bag_precision: float
    node_bag_recall: float
    tuple_precision: float
    tuple_recall: float
    tuple_f1: float


def score(
    gold: Sequence[Program],
    predicted: Sequence[Program],
    *,
    api_set: ApiSet | None = None,
) -> ParseScores:
    """Every figure; without `api_set` the list that fits the gold programs.

    >>> gold = [Program.of('(Yield (f "lunch"))'), Program.of("(FenceScope)")]
    >>> found = score(gold, [Program.of('(Yield (f "dinner"))'), Program.of("(Fence")])
    >>> found.exact_match_anonymous, found.exact_match_literal, found.well_formed_rate
    (0.5, 0.0, 0.5)

    Raises: InvalidInput for sides of different length, none, or a gold text that is no
    program.
    """
    apis = APIS[api_set or match.api_set(gold)]
    exact = match.exact_match(gold, predicted)
    api = match.api_match(gold, predicted, apis=apis)
    literal = match.api_match(gold, predicted, apis=apis, anonymous=False)
    bag = match.node_bag(gold, predicted)
    tuples = match.tuple_match(gold, predicted)
    return ParseScores(
        num_records=len(gold),
        well_formed_rate=match.well_formed_rate(predicted),
        exact_match_anonymous=exact,
        exact_match_literal=match.exact_match(gold, predicted, anonymous=False),
        api_precision=api.precision,
        api_recall=api.recall,
        api_precision_literal=literal.precision,
        api_recall_literal=literal.recall,
        num_api_examples=api.num_examples,
        node_bag_precision=bag.precision,
        node_bag_recall=bag.recall,
        tuple_precision=tuples.precision,
        tuple_recall=tuples.recall,
        tuple_f1=tuples.f1,
    )


def score_by_function(
    gold: Sequence[Program],
    predicted: Sequence[Program],
    *,
    rule: str,
    api_set: ApiSet | None = None,
) -> dict[str, ParseScores]:
    """Scores on the records whose gold program uses a function ("with"), "all" and
    "without".

    `rule` as in `parse.function_types.predicate`; an empty subset is left out.

    Raises: InvalidInput where no gold program uses it.
    """
    uses = predicate(rule)
    with_it = [p.graph is not None and uses(p.graph) for p in gold]
    if not any(with_it):
        raise InvalidInput(
            f"expected a function that occurs in the gold programs, got {rule!r}"
        )
    api_set = api_set or match.api_set(gold)
    subsets = {
        "with": [i for i, some in enumerate(with_it) if some],
        "all": list(range(len(gold))),
        "without": [i for i, some in enumerate(with_it) if not some],
    }
    return {
        name: score(
            [gold[i] for i in ids], [predicted[i] for i in ids], api_set=api_set
        )
        for name, ids in subsets.items()
        if ids
    }
