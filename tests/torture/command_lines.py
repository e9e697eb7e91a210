"""Nearly valid command lines: every command, with options drawn by their types."""

from enum import EnumType
from functools import cache
from typing import get_args

import typer.main

from sweep import cli

# What these run takes minutes or starts servers; they see names and files that are not
# there.
_WITHOUT_INPUT = ("run", "resume", "pretrain", "synthesize", "audit", "parser train")
_LEFT_OUT = ("bench", "ui")
_NUMBERS = (
    *(
        "0",
        "1",
        "-1",
        "0.5",
        "3",
        "1e9",
        "1e300",
        "-1e300",
        "1e-300",
        "nan",
        "inf",
        "-inf",
        "NaN",
    ),
    *(
        "1_000",
        "٣",
        "0x10",
        "1e",
        "",
        " ",
        "true",
        "9" * 400,
        str(2**63),
        str(2**31),
        "1e309",
    ),
)
_WORDS = (
    *(
        "",
        " ",
        "x",
        "..",
        "../..",
        "a b",
        "\x1b[2J",
        "é",
        "-",
        "--",
        "a" * 5_000,
        "[",
        "{{",
        "*",
    ),
    *(
        "training.epochs=0",
        "=",
        "a=b=c",
        "privacy.noise_multiplier=[1]",
        "\ud800",
        "clc",
    ),
)


@cache
def commands():
    """Every command by its words."""
    found = {}

    def add(words, command):
        for name, inner in getattr(command, "commands", {}).items():
            add(f"{words} {name}".strip(), inner)
        if not hasattr(command, "commands") and words not in _LEFT_OUT:
            found[words] = command

    add("", typer.main.get_command(cli.build()))
    return found


def command_line(grammar, *, sweeps, paths):
    """A command with some of its options, each with a value that it may or may not
    take.
    """
    name = grammar.random.choice(sorted(commands()))
    choose = grammar.random.choice
    harmless = name in _WITHOUT_INPUT

    def value(parameter):
        kind = parameter.type_descriptor.annotation
        choices = (
            [each.value for each in kind]
            if isinstance(kind, EnumType)
            else get_args(kind)
        )
        if choices and isinstance(choices[0], str) and grammar.random.random() < 0.7:
            return str(choose(choices))
        if kind in (int, float) and grammar.random.random() < 0.9:
            return choose(_NUMBERS)
        if harmless:
            return (
                choose(_WORDS) if parameter.param_type_name == "option" else "missing/x"
            )
        return choose((*sweeps, *paths, *_WORDS))

    words = name.split()
    for parameter in commands()[name].params:
        if parameter.param_type_name == "argument":
            many = 1 if grammar.random.random() < 0.9 else choose((0, 2))
            words += [value(parameter) for _ in range(many)]
        elif parameter.name != "help" and grammar.random.random() < 0.3:
            words.append(choose([*parameter.opts, *parameter.secondary_opts]))
            if not parameter.is_flag:
                words += [value(parameter) for _ in range(max(1, parameter.nargs))]
    if grammar.random.random() < 0.1:
        words.insert(grammar.random.randrange(len(words)), choose(_WORDS))
    return words
