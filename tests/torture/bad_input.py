"""A grammar of spaces, configs, options and files of records that are nearly right: whatever comes
of one, it is an answer or a refusal in one line, soon and in little memory.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from search_spaces.search import STRATEGIES
from tests.torture.outcome import Tally, run
from trainables import catalogue
from trainables.config import TrialConfig

_NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 0.5, 1e-300, 1e300, -1e300, 1e9, 2**31, 2**63, 2**64, 10**39, 10**50),
    *(
        True,
        False,
        None,
        "1",
        "1e-3",
        "nan",
        "inf",
        "auto",
        "yes",
        [],
        {},
        [1],
        [True],
        "x" * 10_000,
    ),
)
_NAMES = ("clc", "bert", "atis", "snips", "health", "edp_sgd", "dp_sgd", "sgd", "poisson", "full")
_TEXTS = ("", " ", "\0", "\ud800", "../..", "a b", "\x1b[2J", "é", "-", ".", "a" * 300, "[", "{{")
_SECTIONS = {
    name: tuple(info.annotation.model_fields) if hasattr(info.annotation, "model_fields") else ()
    for name, info in TrialConfig.model_fields.items()
}
_SPACE_KEYS = (
    *("name", "description", "base", "variants", "axes", "constraints", "search", "repeats"),
    *("budget", "resources", "fallback", "override", "source", "nonsense"),
)
_WRITTEN = (
    *("[" * 5_000, "a: &a [*a]", "a: !!python/name:os.system x", "{a: 1, a: 2}", "a: .nan"),
    *("\t- a", "%YAML 9", "--- a\n--- b", "a: 010", "? [1]\n: 2", "a: " + "9" * 6_000, "\x00", "-"),
)


class Grammar:
    """Draws values that are nearly right."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, depth: int = 0) -> Any:
        """Anything that a field may be given."""
        kind = self.random.random()
        if kind < 0.45:
            return self.random.choice(_NUMBERS)
        if kind < 0.6:
            return self.random.choice(_NAMES)
        if kind < 0.7:
            return self.random.choice(_TEXTS)
        if depth > 4:
            return None
        if kind < 0.85:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        keys = ("kind", "tau", "target_epsilon", "low", "high", "num", "grid", "range", "name")
        return {k: self.value(depth + 1) for k in self.random.sample(keys, 2)}

    def config(self) -> dict[str, Any]:
        """Fields of a trial's config."""
        found: dict[str, Any] = {"engine": self.random.choice(("edp_sgd", "dp_sgd", "sgd"))}
        found["data"] = {"name": self.random.choice(("atis", "health")), "num_records": 5_000}
        for section in self.random.sample(sorted(_SECTIONS), self.random.randrange(3)):
            fields = _SECTIONS[section]
            if not fields:
                if self.random.random() < 0.3:
                    found[section] = self.value()
                continue
            part = found.get(section)
            part = dict(part) if isinstance(part, dict) else {}
            for field in self.random.sample(fields, 1):
                part[field] = self.value()
            found[section] = part
        return found

    def space(self) -> dict[str, Any]:
        """A search space."""
        found: dict[str, Any] = {"base": self.config(), "name": "torture"}
        paths = [f"{s}.{f}" for s, fields in _SECTIONS.items() for f in fields]
        found["axes"] = {p: self.value() for p in self.random.sample(paths, 2)}
        if self.random.random() < 0.3:
            found["axes"] = {}
        if self.random.random() < 0.3:
            found[self.random.choice(_SPACE_KEYS)] = self.value()
        if self.random.random() < 0.3:
            strategies = (*catalogue.names(STRATEGIES), "nonsense")
            found["search"] = {"strategy": self.random.choice(strategies), "num_samples": 2}
        return found

    def text(self, document: Any) -> str:
        """A document as somebody may have written it: whole, cut, or with a piece of another."""
        text = yaml.safe_dump(document, allow_unicode=True)
        kind = self.random.random()
        place = self.random.randrange(len(text))
        if kind < 0.15:
            return text[:place]
        if kind < 0.3:
            return text[:place] + self.random.choice(_WRITTEN) + text[place:]
        if kind < 0.35:
            return self.random.choice(_WRITTEN)
        return text

    def record(self) -> bytes:
        """A line of a file of records."""
        fields: dict[str, Any] = {
            "text": "call ann now",
            "intent": "call",
            "slots": [["who", 1, 2]],
            "utterance": "call ann",
            "lispress": "(Yield (x))",
            "score": 0.5,
            "member": True,
        }
        for key in self.random.sample(sorted(fields), self.random.randrange(3)):
            fields[key] = self.value()
        line = json.dumps(fields).encode()
        kind = self.random.random()
        if kind < 0.1:
            return line[: self.random.randrange(len(line))]
        if kind < 0.2:
            return self.random.choice((b"\xff", b"", b"null", b"[" * 9_999, b"1e999", b'"a"'))
        return line


def rounds(work: Path, seed: int) -> Iterator[Callable[[Tally], None]]:
    """Bad inputs without end."""
    number = 0
    while True:
        number += 1
        yield lambda tally, n=number: one(work, seed * 1_000_003 + n, tally)  # type: ignore[misc]


def one(work: Path, seed: int, tally: Tally) -> None:
    """One bad input, in the command that reads it."""
    grammar = Grammar(seed)
    how = f"bad input, seed {seed}"
    path = work / "input"
    kind = grammar.random.randrange(6)
    if kind < 2:
        path.write_bytes(grammar.text(grammar.space()).encode("utf-8", "surrogatepass"))
        run(["plan", str(path), "--json"], tally, how=how)
    elif kind == 2:
        path.write_bytes(grammar.text(grammar.config()).encode("utf-8", "surrogatepass"))
        run(["epsilon", str(path), "--json"], tally, how=how)
    elif kind == 3:
        paths = ("training.epochs", "privacy.noise_multiplier", "data.name", "x", "budget.epsilon")
        value = grammar.text(grammar.value())[:10_000].replace("\n", " ")
        change = f"{grammar.random.choice(paths)}={value}"
        run(["plan", "quick", "--set", change, "--json"], tally, how=how)
    else:
        path.write_bytes(b"\n".join(grammar.record() for _ in range(3)) + b"\n")
        other = work / "other"
        other.write_bytes(b"\n".join(grammar.record() for _ in range(3)) + b"\n")
        commands = (
            ["score", "--reference", str(path), "--hypothesis", str(other)],
            ["score", "--gold", str(path), "--predicted", str(other)],
            ["plan", "quick", "--set", "data.name=json_lines", "--set", f"data.path={path}"],
        )
        run(grammar.random.choice(commands), tally, how=how)
