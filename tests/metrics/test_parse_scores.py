import pytest

from tests.refusals import refused
from trainables.metrics import parsing
from trainables.parse import match
from trainables.parse.match import APIS, Program

GOLD = '(Yield (Event.start (FindEventWrapperWithDefaults (Event.subject_? (?= "lunch")))))'
FENCE = "(FenceScope)"
A = (GOLD, GOLD.replace("lunch", "dinner"))
B = (GOLD, GOLD.replace("start", "end"))
C = (GOLD, FENCE)
D = (FENCE, FENCE)


def score(*pairs, **options):
    gold, predicted = zip(*pairs, strict=True)
    return parsing.score(
        list(map(Program.of, gold)), list(map(Program.of, predicted)), **options
    )


@pytest.mark.parametrize(
    ("pair", "exact", "api", "bag"),
    [(A, 1, 1, 1), (B, 0, 0.5, 0.8), (C, 0, 0, 0), (D, 1, 0, 1)],
)
def test_one_prediction(pair, exact, api, bag):
    found = score(pair, api_set="smcalflow")
    assert found.exact_match_anonymous == exact
    assert (found.api_precision, found.api_recall) == (api, api)
    assert (found.node_bag_precision, found.node_bag_recall) == pytest.approx(
        (bag, bag)
    )
    assert found.num_api_examples == (pair is not D)


def test_a_corpus_leaves_examples_without_an_api_out():
    found = score(A, B, C, D)
    assert (found.exact_match_anonymous, found.exact_match_literal) == (0.5, 0.25)
    assert (found.api_precision, found.api_recall) == pytest.approx((0.5, 0.5))
    assert found.num_api_examples == 3
    assert found.api_precision_literal < found.api_precision


@pytest.mark.parametrize(
    ("gold", "predicted", "exact"),
    [
        ("(Yield (f 1L))", "(Yield (f 2L))", 0),
        ('(Yield (f "a"))', '(Yield (f " b"))', 1),
        ("(Yield (f (a) (a)))", "(let (x (a)) (Yield (f x x)))", 0),
        ("(Yield :a 1 :b 2)", "(Yield :b 2 :a 1)", 1),
        ("(Yield :a 1)", "(Yield 1)", 0),
        ("(Yield (^(S) f))", "(Yield (^(T) f))", 0),
    ],
)
def test_numbers_sharing_names_and_types_count_strings_and_order_do_not(
    gold, predicted, exact
):
    assert score((gold, predicted)).exact_match_anonymous == exact


def test_spaces_around_a_string_do_not_count():
    assert score(('(Yield (f "a"))', '(Yield (f " a "))')).exact_match_literal == 1


def test_a_prediction_matches_one_gold_subgraph_only():
    found = score(("(do (Yield (a)) (Yield (a)))", "(do (Yield (a)) (b))"))
    assert (found.api_precision, found.api_recall) == (1, 0.5)


def test_a_malformed_prediction_matches_nothing_and_is_counted():
    found = score((GOLD, GOLD[:-1]), (GOLD, GOLD))
    assert found.well_formed_rate == 0.5
    assert (
        found.exact_match_anonymous == found.api_recall == found.node_bag_recall == 0.5
    )
    assert found.tuple_precision == 1  # of what was predicted at all


def test_the_api_list_that_fits():
    treedst = [Program.of('(plan (^(Hotel) Book :object (Hotel.name_? (?= "x"))))')]
    calflow = [Program.of("(Yield (Execute (refer (extensionConstraint (f)))))")]
    assert (match.api_set(treedst), match.api_set(calflow)) == ("treedst", "smcalflow")
    assert {name: len(apis) for name, apis in APIS.items()} == {
        "smcalflow": 13,
        "treedst": 11,
    }


def test_recall_of_each_function():
    gold = [Program.of("(Yield (f (g)))"), Program.of("(Yield (g))")]
    found = match.function_recall(
        gold, [Program.of("(Yield (g (g)))"), Program.of("(")]
    )
    assert found == {"Yield": (0.5, 2), "g": (0.5, 2), "f": (0.0, 1)}
    assert list(found) == ["Yield", "g", "f"]


def test_with_and_without_a_function():
    gold = [
        Program.of(GOLD),
        Program.of(FENCE),
        Program.of("(Yield (WeatherQueryApi))"),
    ]
    found = parsing.score_by_function(
        gold, [gold[0], gold[1], gold[0]], rule="WeatherQueryApi"
    )
    sizes = {name: scores.num_records for name, scores in found.items()}
    assert sizes == {"with": 1, "all": 3, "without": 2}
    assert found["with"].exact_match_anonymous == 0
    assert found["without"].exact_match_anonymous == 1
    with refused("a function that occurs"):
        parsing.score_by_function(gold, gold, rule="NoSuchFunction")


def test_sides_that_do_not_belong_together_are_refused():
    gold = [Program.of(GOLD)]
    with refused("as many predictions"):
        parsing.score(gold, [])
    with refused("gold record 1"):
        parsing.score([Program.of("(")], gold)
