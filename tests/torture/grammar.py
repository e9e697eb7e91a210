"""A grammar of nearly valid values, spaces, configs, schemas, records and files."""

import json
import random

import yaml

from search_spaces.search import STRATEGIES
from trainables import catalogue
from trainables.config.trial import TrialConfig

_NUMBERS = (
    *(
        0,
        1,
        -1,
        2,
        3,
        0.5,
        1e-300,
        1e300,
        -1e300,
        1e9,
        2**31,
        2**63,
        2**64,
        10**39,
        10**50,
    ),
    *(True, False, None, "1", "1e-3", "nan", "inf", "auto", "yes", [], {}, [1], [True]),
    "x" * 10_000,
)
_NAMES = (
    "clc",
    "bert",
    "atis",
    "snips",
    "health",
    "edp_sgd",
    "dp_sgd",
    "sgd",
    "poisson",
    "full",
)
_TEXTS = (
    "",
    " ",
    "\0",
    "\ud800",
    "../..",
    "a b",
    "\x1b[2J",
    "é",
    "-",
    ".",
    "a" * 300,
    "[",
    "{{",
)
_SECTIONS = {
    name: tuple(info.annotation.model_fields)
    if hasattr(info.annotation, "model_fields")
    else ()
    for name, info in TrialConfig.model_fields.items()
}
_SPACE_KEYS = (
    *(
        "name",
        "description",
        "base",
        "variants",
        "axes",
        "constraints",
        "search",
        "repeats",
    ),
    *("budget", "resources", "fallback", "override", "source", "nonsense"),
)
# What stands in the middle of a document, or in the place of it.
_WRITTEN = (
    *(
        b"[" * 5_000,
        b"a: &a [*a]",
        b"a: !!python/name:os.system x",
        b"{a: 1, a: 2}",
        b"a: .nan",
    ),
    *(
        b"\t- a",
        b"%YAML 9",
        b"--- a\n--- b",
        b"a: 010",
        b"? [1]\n: 2",
        b"a: " + b"9" * 6_000,
    ),
    *(b"\x00", b"-"),
)
_BYTES = (
    *(
        b"\xff\xfe",
        b"\0",
        b"\xed\xa0\x80",
        b"[" * 9_999,
        b"\r",
        b'"' * 3,
        b"9" * 6_000,
        b"",
    ),
    b"null",
)
_RECORD = {
    **{
        "text": "call ann now",
        "intent": "call",
        "slots": [["who", 1, 2]],
        "utterance": "call ann",
    },
    **{"lispress": "(Yield (x))", "score": 0.5, "member": True},
}
_SCHEMA = {"intents": ["call", "text"], "slots": ["who", "contact"]}
_WORDS = (
    "call ann now",
    "[ann](who",
    "[who : ann",
    "a,b",
    '"',
    "",
    "\t",
    "é \u2028 x",
    "x " * 500,
)
_TAGS = ("O", "B-who", "I-who", "B-", "", "B-who B-who", "b-who")


class Grammar:
    """Draws values that are nearly right."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def value(self, depth=0):
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
        keys = (
            "kind",
            "tau",
            "target_epsilon",
            "low",
            "high",
            "num",
            "grid",
            "range",
            "name",
        )
        return {k: self.value(depth + 1) for k in self.random.sample(keys, 2)}

    def config(self):
        found = {"engine": self.random.choice(("edp_sgd", "dp_sgd", "sgd"))}
        found["data"] = {
            "name": self.random.choice(("atis", "health")),
            "num_records": 5_000,
        }
        for section in self.random.sample(sorted(_SECTIONS), self.random.randrange(3)):
            fields = _SECTIONS[section]
            if not fields:
                if self.random.random() < 0.3:
                    found[section] = self.value()
                continue
            field = self.random.choice(fields)
            found[section] = {**found.get(section, {}), field: self.value()}
        return found

    def space(self):
        found = {"base": self.config(), "name": "torture"}
        paths = [f"{s}.{f}" for s, fields in _SECTIONS.items() for f in fields]
        found["axes"] = {p: self.value() for p in self.random.sample(paths, 2)}
        if self.random.random() < 0.3:
            found["axes"] = {}
        if self.random.random() < 0.3:
            found[self.random.choice(_SPACE_KEYS)] = self.value()
        if self.random.random() < 0.3:
            strategies = (*catalogue.names(STRATEGIES), "nonsense")
            found["search"] = {
                "strategy": self.random.choice(strategies),
                "num_samples": 2,
            }
        return found

    def yaml(self, document):
        """A YAML document as somebody may have written it."""
        text = yaml.safe_dump(document, allow_unicode=True)
        return self.damaged(text.encode("utf-8", "surrogatepass"), _WRITTEN)

    def json(self, document):
        """A JSON document, mostly with another value in one place."""
        if self.random.random() < 0.6:
            document = self.changed(document)
        return self.damaged(json.dumps(document).encode(), _BYTES)

    def record(self):
        """A line of a file of records."""
        return self.json(_RECORD)

    def records(self, number=3):
        """A file of such lines."""
        return b"\n".join(self.record() for _ in range(number)) + b"\n"

    def schema(self):
        return self.json(_SCHEMA)

    def changed(self, document):
        """A JSON document with one value in it replaced, removed or added."""
        place = self.random.random()
        if isinstance(document, dict) and document and place < 0.9:
            key = self.random.choice(sorted(document))
            kind = self.random.random()
            if kind < 0.1:
                return {name: value for name, value in document.items() if name != key}
            if kind < 0.15:
                return {**document, self.random.choice(_TEXTS): self.value()}
            return {**document, key: self.changed(document[key])}
        if isinstance(document, list) and document and place < 0.8:
            index = self.random.randrange(len(document))
            if self.random.random() < 0.1:
                return [*document[:index], *document[index + 1 :]]
            return [
                *document[:index],
                self.changed(document[index]),
                *document[index + 1 :],
            ]
        return self.value()

    def damaged(self, content, pieces=_BYTES):
        """Bytes as they are, cut, with a foreign piece among them, or that alone."""
        kind, place = self.random.random(), self.random.randrange(len(content) + 1)
        piece = self.random.choice(pieces)
        cases = {
            0.1: content[:place],
            0.2: content[:place] + piece + content[place:],
            0.23: piece,
        }
        return next((found for most, found in cases.items() if kind < most), content)

    def line(self):
        """A line for `sweep predict`."""
        kinds = (
            lambda: self.record().replace(b"\n", b" "),
            lambda: b"call ann now",
            lambda: b"a " * self.random.choice((1, 100, 10_000, 100_000)),
            lambda: b"b" * self.random.choice((1, 1_000, 1_000_000, 3_000_000)),
            lambda: self.random.randbytes(self.random.randrange(200)),
            lambda: self.random.choice(_TEXTS).encode("utf-8", "surrogatepass"),
        )
        return self.random.choice(kinds)()

    def file_of(self, form):
        """A file of utterances in one of the forms of the shelf."""
        rows = [
            (self.random.choice(_WORDS), self.random.choice(_NAMES)) for _ in range(4)
        ]
        makers = {
            "table": lambda: "text,intent\n" + "".join(f'"{t}",{i}\n' for t, i in rows),
            "conll": lambda: "".join(
                "".join(f"{word} {self.random.choice(_TAGS)}\n" for word in t.split())
                + "\n"
                for t, _ in rows
            ),
            "json_lines": lambda: "".join(
                json.dumps(
                    self.changed({"utt": t, "annot_utt": f"[who : {t}]", "intent": i})
                )
                + "\n"
                for t, i in rows
            ),
            "rasa": lambda: yaml.safe_dump(
                self.changed(_rasa(rows)), allow_unicode=True
            ),
        }
        if form not in makers:
            return self.damaged(self.records())
        return self.damaged(makers[form]().encode("utf-8", "surrogatepass"))


def _rasa(rows):
    examples = [
        {"intent": i, "examples": f"- {t}\n- call [ann](who)\n"} for t, i in rows
    ]
    return {"version": "3.1", "nlu": examples}
