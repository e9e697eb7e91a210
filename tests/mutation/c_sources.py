"""Faults in C sources, by their text. Most lead to the Python form, with which a source
is compared before its use: tests must notice that the compiled one is gone, or that its
results are wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from .operators import Mutant, pairs_in

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^\s*#[^\n]*", re.DOTALL | re.MULTILINE)
_FAULTS = (
    ("constant", re.compile(r"(?<![\w.])(0x[0-9a-fA-F]+|\d+)(?![\w.]|\])"), lambda t: f"({t} + 1)"),
    ("constant", re.compile(r"(?<![\w.])\d+\.\d*(?:e-?\d+)?f?"), lambda t: f"(2 * {t})"),
    ("comparison", re.compile(r" (<=|>=|<|>|==|!=) "), lambda t: f" {_OTHER[t.strip()]}"
                                                                 f" "),
    ("operator", re.compile(r" (\+|-|\*|/|&|\||\^|<<|>>) "), lambda t: f" {_OTHER[t.strip()]} "),
    ("operator", re.compile(r" (\+=|-=|\*=|\^=|\|=) "), lambda t: f" {_OTHER[t.strip()]} "),
    ("statement left out", re.compile(r"(?<=\n)[ \t]+[^;{}\n#]*[^;{}\n ] ?[-+*^|]?="
                                      r" [^;{}\n]*;"),
     lambda t: ";" if not re.match(r"\s*(const |static"
                                   r" |float|double|int|uint|__m|for)", t) else t),
    ("function left out", re.compile(r"\b(sqrtf|logf|cosf|sinf|sqrt|log|fabsf)\("), lambda t: "("),
)  # fmt: skip
_OTHER = pairs_in(
    "<= <, >= >, < <=, > >=, == !=, != ==, + -, - +, * /, / *, & |, | &, ^ |, << >>, >>"
    " <<, += -=, -= +=, *= /=, ^= |=, |= &="
)


@dataclass(frozen=True, kw_only=True)
class CMutant(Mutant):
    """A fault in a C source, in one line of it, from `start` to `stop` of its text."""

    start: int
    stop: int

    def applied(self, text):
        return text[: self.start] + self.after + text[self.stop :]


def c_mutants_of(source, file):
    """Every fault that fits somewhere in a C source."""
    blank = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)
    made, seen = [], Counter()
    for operator, pattern, other in _FAULTS:
        for found in pattern.finditer(blank):
            before, after = found[0], other(found[0])
            if before == after:
                continue
            number = blank.count("\n", 0, found.start()) + 1
            line = " ".join(source.splitlines()[number - 1].split())
            key = f"{file}::{operator}::{before.strip()} -> {after.strip()}::{line}"
            seen[key] += 1
            made.append(
                CMutant(
                    file=file, key=f"{key}::{seen[key]}", operator=operator, before=line,
                    after=after, lines=(number, number),
                    start=found.start(), stop=found.end(),
                )
            )  # fmt: skip
    return made
