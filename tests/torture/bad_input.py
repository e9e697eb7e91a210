"""Bad input of every kind that a command reads: it is answered or refused in one line,
soon and in little memory. A family draws a command line, its files and standard input
from a seed.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from sweep.store import manifest
from tests.sweep import logs
from tests.torture.command_lines import command_line
from tests.torture.damage import Home
from tests.torture.grammar import Grammar
from tests.torture.outcome import run
from trainables.data.formats.reading import READERS

_INSTALLED_SHARE = 1 / 30
_SEEDS_APART = 1_000_003


@dataclass(frozen=True)
class Given:
    """What a command is given."""

    arguments: list[str]
    stdin: bytes = b""
    changes_home: bool = False
    how: str = ""


@dataclass
class Bench:
    """Where inputs are written, and the home that commands see."""

    home: Home
    work: Path
    is_changed: bool = field(default=False, init=False)

    def write(self, name, content):
        """The path of a file with that content."""
        path = self.work / name
        path.write_bytes(content)
        return str(path)


def space(grammar, bench):
    """A search space, planned."""
    place = bench.write("space.yaml", grammar.yaml(grammar.space()))
    return Given(["plan", place, "--json"])


def config(grammar, bench):
    """A trial's config, priced."""
    place = bench.write("config.yaml", grammar.yaml(grammar.config()))
    return Given(["epsilon", place, "--json"])


def override(grammar, bench):
    """A field of a shipped space, on the command line."""
    paths = (
        "training.epochs",
        "privacy.noise_multiplier",
        "data.name",
        "x",
        "budget.epsilon",
    )
    value = os.fsdecode(grammar.yaml(grammar.value())[:10_000].replace(b"\n", b" "))
    change = f"{grammar.random.choice(paths)}={value}"
    return Given(["plan", "quick", "--set", change, "--json"])


def options(grammar, bench):
    """Arguments and options of a command that reads, or that has nothing to run."""
    paths = [
        bench.write("given", grammar.records()),
        bench.write("given.yaml", grammar.yaml(grammar.space())),
        *(
            str(bench.home.home / "export-of-it"),
            str(bench.work / "missing"),
            "/dev/null",
        ),
        *(str(bench.work / "new"), str(bench.home.home), "", "/dev/stdin"),
    ]
    words = command_line(
        grammar, sweeps=(bench.home.name, bench.home.trial), paths=paths
    )
    return Given(words, stdin=grammar.records(), changes_home=True)


def records(grammar, bench):
    """Files of records, in the commands that read them."""
    path, other = (
        bench.write(name, grammar.records()) for name in ("records", "others")
    )
    commands = (
        ["score", "--reference", path, "--hypothesis", other],
        ["score", "--gold", path, "--predicted", other],
        ["score", "--human", path, "--synthetic", other],
        ["attack", "--scores", path],
        _plan_on(path, other),
    )
    return Given(grammar.random.choice(commands))


def _plan_on(path, schema):
    """The plan of a small sweep on a file of one's own."""
    fields = (
        "name=json_lines",
        f"path={path}",
        f"schema_file={schema}",
        "num_records=36",
    )
    sets = [*(f"data.{field}" for field in fields), "privacy.noise_multiplier=1"]
    return [
        "plan",
        "epsilon_8",
        "--json",
        *(word for each in sets for word in ("--set", each)),
    ]


def data(grammar, bench):
    """A file of utterances of any form, known or to be found out."""
    form = grammar.random.choice(FORM_NAMES)
    path = bench.write(
        f"data.{grammar.random.choice(_SUFFIXES)}", grammar.file_of(form)
    )
    how = grammar.random.choice(([], ["--format", grammar.random.choice(FORM_NAMES)]))
    new = str(bench.work / "new")
    commands = (
        ["data", "check", path, *how],
        ["data", "describe", path, *how, "--json"],
        ["data", "convert", path, "--to", new, *how],
        ["init", path, "--to", new, *how],
    )
    return Given(grammar.random.choice(commands))


def schema(grammar, bench):
    """A schema of labels, with a file that is sound."""
    path, sound = (
        bench.write("schema.json", grammar.schema()),
        bench.write("sound", _SOUND),
    )
    commands = (
        ["data", "check", sound, "--schema", path],
        _plan_on(sound, path),
        ["init", sound, "--schema", path, "--to", str(bench.work / "new")],
    )
    return Given(grammar.random.choice(commands))


def sweep_folder(grammar, bench):
    """A file of a sweep or an export with a value that it cannot have, its manifest
    made to fit.
    """
    home = bench.home
    places = [place for place in home.files() if place.suffix in _DOCUMENTS]
    place = grammar.random.choice(places)
    path = home.home / place
    path.write_bytes(_changed_document(grammar, path))
    if place.name != manifest.FILE:
        fit_manifests(path, home.home)
    command = grammar.random.choice(home.readers_of(place))
    return Given(
        list(command), stdin=b"flights\n", changes_home=True, how=f"{place} changed"
    )


def predict(grammar, bench):
    """Lines for an exported model."""
    lines = [grammar.line() for _ in range(grammar.random.choice((1, 3, 30)))]
    flags = [flag for flag in ("--json", "--jsonl") if grammar.random.random() < 0.5]
    return Given(
        ["predict", str(bench.home.home / "export-of-it"), *flags],
        stdin=b"\n".join(lines),
    )


FORM_NAMES = tuple(READERS)
FAMILIES = {
    "space": space,
    "config": config,
    "override": override,
    "options": options,
    "records": records,
    "data": data,
    "schema": schema,
    "sweep folder": sweep_folder,
    "predict": predict,
}
_SUFFIXES = ("jsonl", "json", "csv", "tsv", "txt", "yml", "conll", "bin")
_DOCUMENTS = (".json", ".jsonl", ".yaml", ".head")
_SOUND = b"".join(
    json.dumps(
        {"text": f"call ann {n}", "intent": "call", "slots": [["who", 1, 2]]}
    ).encode()
    + b"\n"
    for n in range(40)
)


def rounds(bench, seed):
    """Bad inputs without end, of every family in turn."""
    number = 0
    while True:
        for name in FAMILIES:
            number += 1
            own = seed * _SEEDS_APART + number
            yield lambda tallies, n=name, s=own: one(bench, n, s, tallies[n])  # type: ignore[misc]


def one(bench, family, seed, tally):
    """The bad input of a family that has that seed."""
    grammar = Grammar(seed)
    installed = grammar.random.random() < _INSTALLED_SHARE
    given = FAMILIES[family](grammar, bench)
    how = f"{family}, seed {seed}{', installed' if installed else ''}, {given.how}".rstrip(
        ", "
    )
    run(
        [_as_argument(word) for word in given.arguments],
        tally,
        how=how,
        stdin=given.stdin,
        installed=installed,
        environment=bench.home.environment,
    )
    if given.changes_home:
        bench.home.restore()
    bench.home.remove(bench.work / "new")


def _as_argument(word):
    """A word as a process may be given it: bytes without NUL, which Python decodes."""
    return os.fsdecode(word.replace("\0", "").encode("utf-8", "surrogatepass"))


def _changed_document(grammar, path):
    """The content of a file with one value changed."""
    content = path.read_bytes()
    try:
        if path.suffix == ".yaml":
            return yaml.safe_dump(grammar.changed(yaml.safe_load(content))).encode()
        if path.suffix == ".json":
            return _json(grammar.changed(json.loads(content)))
        if path.suffix == ".jsonl":
            documents = [_json(entry) for entry in logs.entries(path)]
            number = grammar.random.randrange(len(documents))
            documents[number] = _json(grammar.changed(json.loads(documents[number])))
            logs.write(path, documents)
            return path.read_bytes()
        return logs.line(_json(grammar.changed(json.loads(content))))
    except (ValueError, IndexError, yaml.YAMLError):
        return grammar.damaged(content)


def _json(document):
    return json.dumps(document).encode("utf-8", "surrogatepass")


def fit_manifests(path, home):
    """Have the manifests above a file say what is in it."""
    for folder in path.parents:
        place = folder / manifest.FILE
        if folder == home:
            return
        if place.exists():
            document = json.loads(place.read_bytes())
            content = path.read_bytes()
            mark = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            document["files"][path.relative_to(folder).as_posix()] = mark
            place.write_bytes(_json(document))
