"""Prefix notation: nothing is lost, and a writer that keeps to the state writes whole
programs.
"""

import random

import _real_programs as _real
import numpy as np
import pytest

from trainables.parse.graph import graph, is_well_formed
from trainables.parse.linearise import (
    PrefixState,
    anonymise,
    arity,
    delinearise,
    linearise,
)
from trainables.parse.lispress import LispressError, read, write


@pytest.mark.parametrize(
    "program",
    [
        "(Now)",
        "x0",
        "()",
        '"a/2"',
        "(f x0 12L 0.5 true)",
        "(/ 1L 2L)",
        "(f/2 a/- let lambda)",
        "(^(T (List S)) f :a 1L :b (g))",
        "(f (g) :k (h :j 1L))",
        "^(List T) (f)",
        "(f ^Long x0)",
        "(let (x0 (Now) x1 (g x0)) (f x0 x1))",
        "(let () (f))",
        "(lambda (^(Option T) x0) (f x0))",
        '(:start (f #(String "a")))',
        "#1",
        "(: 1L)",
        "(let (x0 (let (x1 (f)) x1)) (lambda (x2) (let (x3 x2) x3)))",
        pytest.param("(f :a (^((List T)) g " * 5_000 + '"a"' + "))" * 5_000, id="deep"),
    ],
)
def test_tokens_give_the_program_back(program):
    tokens = linearise(program)
    assert write(delinearise(tokens)) == write(read(program))
    # A state that gets the tokens is whole after the last one and not before.
    state = PrefixState()
    for token in tokens:
        assert state.pending > 0
        state.write(token)
    assert state.pending == 0


@pytest.mark.slow  # every real program
def test_real_programs_come_back_and_are_a_third_as_long():
    lengths = []
    for program in (*_real.smcalflow_valid(), *_real.treedst()):
        tokens = linearise(program)
        assert (
            write(delinearise(tokens))
            == write(read(program))
            == " ".join(program.split())
        )
        lengths.append(len(tokens))
    of_smcalflow = np.array(lengths[: len(_real.smcalflow_valid())])
    found = (of_smcalflow.mean().round(1), np.median(of_smcalflow), of_smcalflow.max())
    assert found == (10.4, 10, 69)


def test_anonymous_programs_keep_their_structure():
    assert (
        anonymise('(f "a" :b -3L :c 2.5 :d true x0)')
        == '(f "STRING" :b 0L :c 0.0 :d true x0)'
    )


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        ["f/1"],
        ["f/1", "g/0", "h/0"],
        [":k/1", "g/0"],
        ["f"],
        ["f/x"],
        ["as T/1", ":k/1", "x/-"],
    ],
)
def test_tokens_that_are_no_program_are_refused(tokens):
    with pytest.raises(LispressError):
        delinearise(tokens)


@pytest.mark.parametrize(
    "program", ["(let (x) (f))", '("f")', ":k", "(f :k)", "(lambda x)", "((f))"]
)
def test_trees_that_are_no_program_are_refused(program):
    with pytest.raises(LispressError):
        linearise(program)


@pytest.mark.parametrize(
    ("written", "slot"),
    [
        ("f/1", "argument"),
        ("^(T) f/1", "argument"),
        (":/1", "argument"),  # a function whose name is a colon
        (":k/1", "expression"),
        ("(:k/1", "expression"),
        ("#/1", "expression"),
        ("as T/1", "expression"),
        ("lambda (x0)/1", "expression"),
        ("let/1", "expression"),
        ("let/3", "name"),
    ],
)
def test_named_arguments_stand_in_calls_alone(written, slot):
    state = PrefixState()
    state.write(written)
    assert state.slot == slot


def test_any_walk_that_keeps_to_the_slots_is_a_program():
    """500 random walks over tokens of every kind, each cut short by a budget of 40."""
    draw = random.Random(0)
    calls = [
        "f/0",
        "f/2",
        "^(T) g/1",
        "#/1",
        "as T/1",
        "lambda (x1)/1",
        "(:k/1",
        "let/1",
        "()/0",
    ]
    names, keys = ["x0/-", "x1/-"], [":k/1", ":j/1"]
    for _ in range(500):
        state, tokens = PrefixState(), []
        while state.pending:
            fitting = {
                "expression": [*calls, "let/3", "let/5", '"a"', "1L/-", *names],
                "argument": [*calls, "let/3", '"a"', *names, *keys],
                "name": names,
            }[state.slot]
            left = 40 - len(tokens)
            token = draw.choice(
                [t for t in fitting if arity(t) <= left - state.pending]
            )
            tokens.append(token)
            state.write(token)
        assert len(tokens) <= 40
        program = write(delinearise(tokens))
        assert is_well_formed(program), program
        assert graph(program).nodes
