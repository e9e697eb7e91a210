from itertools import pairwise

import _real_programs as _real
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refused
from trainables.parse.function_types import function_types, occurrences, predicate
from trainables.parse.graph import graph, is_well_formed, serialize
from trainables.parse.lispress import LispressError

LATER = (
    "(let (x0 (Now)) (Yield (FindEventWrapperWithDefaults (EventOnDateBeforeTime"
    " (DateTime.date x0) (^(Event) EmptyStructConstraint) (DateTime.time x0)))))"
)


def test_literals_variables_and_bare_symbols():
    quoted = graph('(MyFunc "a (quoted) \\" b")')
    assert [node.kind for node in quoted.nodes] == ["string", "call"]
    assert [node.kind for node in graph("(f 1L 2)").nodes] == ["long", "number", "call"]
    assert function_types("(Yield (> ^Long (size x) 0L))") == {
        "Yield",
        ">",
        "size",
        "x",
        "Long",
    }
    assert function_types("(let (x (f)) (size x))") == {"f", "size"}
    assert function_types("(lambda (^T x0) (f x0 true 1.5))") == {"T", "f"}
    assert function_types('(:start #(String "a"))') == {"get"}


def test_a_compound_type_is_a_node_a_name():
    found = graph('(^((Option (Constraint Message))) Path.apply "object")')
    assert [n.label for n in found.nodes if n.kind == "type"] == [
        "Message",
        "Constraint",
        "Option",
    ]


@pytest.mark.slow  # 14,751 programs
def test_the_published_counts_of_the_validation_file():
    graphs = [graph(program) for program in _real.smcalflow_valid()]
    assert len(graphs) == 14_751
    assert (
        len(frozenset().union(*(function_types(g, kinds=("call",)) for g in graphs)))
        == 399
    )
    assert len(frozenset().union(*map(function_types, graphs))) == 425
    shares = {rule: sum(map(predicate(rule), graphs)) / len(graphs) for rule in RULES}
    assert shares == pytest.approx(RULES, abs=5e-5)


RULES = {"EventOnDate*": 0.1083, "EventOnDate": 0.0885, "WeatherQueryApi": 0.0321}


def test_every_treedst_program_is_a_graph():
    assert all(map(is_well_formed, _real.treedst()))


def test_order_of_named_arguments_and_names_of_variables_say_nothing():
    assert serialize(graph("(f :b 1 :a 2)")) == serialize(graph("(f :a 2.0 :b 1.0)"))
    assert serialize(graph("(f 1 2)")) != serialize(graph("(f 2 1)"))
    assert serialize(graph(LATER.replace("x0", "x7"))) == serialize(graph(LATER))


def test_sharing_is_part_of_a_graph():
    assert serialize(graph("(let (x (a)) (f x x))")) != serialize(graph("(f (a) (a))"))
    assert serialize(graph("(let (x (a)) (f x))")) == serialize(graph("(f (a))"))


def test_scopes_end():
    assert occurrences("(f (let (x (a)) x) x)") == ("a", "x", "f")
    assert function_types("(f (lambda (y) y) y)") == {"f", "y"}


@pytest.mark.parametrize(
    "text",
    [
        "(let (x) (f x))",
        "(let (x (f)) (g) (h))",
        '(let ("x" (f)) (g))',
        "(let x (f))",
        '("f" (g))',
        "((f) (g))",
        "(1L)",
        "(f :a)",
        "(f :a :b 1)",
        ":a",
        "(:a)",
        "(lambda x (f))",
        '(^("T") f)',
        "(lambda ((f x)) (g))",
    ],
)
def test_a_list_that_is_no_call_is_refused(text):
    assert not is_well_formed(text)
    with pytest.raises(LispressError):
        graph(text)


def test_bindings_that_double_do_not_explode():
    names = [f"x{i}" for i in range(200)]
    pairs = [f"{new} (g {old} {old})" for old, new in pairwise(names)]
    program = f"(let (x0 (f) {' '.join(pairs)}) {names[-1]})"
    assert len(occurrences(program)) == 200
    assert len(serialize(graph(program))) < 10_000


def test_depth_is_no_limit():
    deep = "(f :a (^((List T)) g " * 5_000 + '"a"' + "))" * 5_000
    assert len(graph(deep).nodes) == 4 * 5_000 + 1
    assert serialize(graph(deep), anonymous=True).count("STRING") == 1
    assert len(graph("(let (x (f)) " * 10_000 + "x" + ")" * 10_000).nodes) == 10_000
    assert (
        len(graph("(^(" + "(List " * 10_000 + "T" + ")" * 10_000 + ") f)").nodes)
        == 10_002
    )


@given(st.text(alphabet='() "^#aL1:xletmbd', max_size=80))
def test_any_text_is_a_graph_or_refused(text):
    try:
        found = graph(text)
    except LispressError:
        return
    assert serialize(found) == serialize(graph(text))


def test_an_empty_predicate_is_refused():
    for rule in ("", "*"):
        with refused("expected a function name"):
            predicate(rule)
