"""Damage to every file of a finished sweep and of an export: some command that reads
the file refuses or marks it, or all of them print what they printed before.
"""

import contextlib
import random
import re
import shutil

from sweep.results.export import export_trial
from tests.torture.outcome import Tally, run

_CHANGES = re.compile(
    r"\"(seconds|created|time|eta)\": [^,\n]*|[0-9.]+ s\b|/[^ \"]*torture[^ \"]*"
)

_MARKED = re.compile(
    r"damage|differ|manifest|is missing|expected|has another|records"
    r" unknown|\"recognised\": false"
)
_INSTALLED_SHARE = 1 / 30
_WITH_ALL_SHARE = 1 / 10


def _cut(path, random):
    content = path.read_bytes()
    path.write_bytes(content[: random.randrange(len(content)) if content else 0])


def _flip(path, random):
    content = bytearray(path.read_bytes() or b"x")
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(bytes(content))


def _noise(path, random):
    content = path.read_bytes()
    start = random.randrange(len(content) + 1)
    path.write_bytes(content[:start] + random.randbytes(16) + content[start + 16 :])


def _folder(path, random):
    path.unlink()
    path.mkdir()


_OTHERS = ["", "null", "[]", "{}", "3", '"x"', "[[[", "NaN", "\0", "a: b"]
DAMAGES = {
    "cut": _cut,
    "bit flipped": _flip,
    "bytes overwritten": _noise,
    "missing": lambda path, random: path.unlink(),
    "a folder": _folder,
    "something else": lambda path, random: path.write_text(random.choice(_OTHERS)),
    "nested deep": lambda path, random: path.write_text("[" * 100_000),
    "not readable": lambda path, random: path.chmod(0),
}


class Home:
    """A home with a finished sweep and an export, restored after each damage. `sweep`
    is kept as it is; `work` takes the home, its copy and what commands write.
    """

    def __init__(self, sweep, work):
        self.home, self._kept = work / "torture-home", work / "torture-kept"
        shutil.copytree(sweep.path.parent, self._kept)
        best = next(each for each in sweep.records() if each.privacy is not None)
        export_trial(sweep, best, self._kept / "export-of-it")
        self.name, self.trial = sweep.name, best.plan.id
        self.environment = {
            "SWEEP_HOME": str(self.home),
            "SWEEP_DATA_DIR": str(sweep.path.parents[1]),
        }
        self._before = {}
        self.restore()

    def restore(self):
        """The home as it was."""
        self.remove(self.home)
        shutil.copytree(self._kept, self.home)

    def remove(self, place):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            shutil.rmtree(place)
        place.unlink(missing_ok=True)

    def files(self):
        """All files, by their place in the home."""
        found = (path for path in self.home.rglob("*") if path.is_file())
        return sorted(path.relative_to(self.home) for path in found)

    def commands(self):
        """Every command that reads and starts nothing."""
        export, out = self.home / "export-of-it", self.home / "out"
        return [
            ("list", "--json"),
            ("show", self.name, "--json"),
            ("show", self.name),
            ("ledger", "--json"),
            ("ledger", "--check"),
            ("compare", self.name, self.name),
            ("report", self.name, "--output", str(out)),
            ("export", self.name, "--any-epsilon", "--to", str(out)),
            ("predict", str(export), "--json"),
            ("plan", "quick", "--json"),
        ]

    def readers_of(self, place):
        top = place.parts[0]
        if top == "export-of-it":
            readers = {"predict"}
        elif top == "cache":
            readers = {"plan"}
        elif top.startswith("ledger"):
            readers = {"ledger", "ledger --check"}
        elif "trials" in place.parts:
            readers = {"show", "compare", "export", "ledger --check"}
        else:
            readers = {"list", "show", "ledger --check"}
        return [
            command
            for command in self.commands()
            if ("ledger --check" if "--check" in command else command[0]) in readers
        ]

    def say(self, command, tally, *, how, installed):
        """Exit code and all that a command prints, but for times and places."""
        code, said = run(
            command,
            tally,
            how=how,
            stdin=b"flights to boston\n",
            installed=installed,
            environment=self.environment,
        )
        self.remove(self.home / "out")
        return f"{code} {_CHANGES.sub('', said)}"

    def said_before(self, command):
        """What a command says of the home as it was."""
        if command not in self._before:
            self.restore()
            self._before[command] = self.say(command, Tally(), how="", installed=False)
        return self._before[command]

    def damage(self, name, place, seed, tally):
        chosen = random.Random(seed)
        installed = chosen.random() < _INSTALLED_SHARE
        how = f"{name}: {place}, seed {seed}{', installed' if installed else ''}"
        noticed, silent = False, ""
        every = chosen.random() < _WITH_ALL_SHARE
        commands = self.commands() if every else self.readers_of(place)
        before = {command: self.said_before(command) for command in commands}
        self.restore()
        DAMAGES[name](self.home / place, chosen)
        for command, expected in before.items():
            said = self.say(command, tally, how=how, installed=installed)
            if said == expected:
                continue
            noticed |= not said.startswith("0 ") or bool(_MARKED.search(said))
            silent = (
                silent or f"{' '.join(command)}\n{_first_difference(expected, said)}"
            )
        with contextlib.suppress(FileNotFoundError):
            (self.home / place).chmod(0o700)
        if noticed or not silent:
            tally.add("damages noticed" if noticed else "damages harmless")
        else:
            tally.add("damages that change figures in silence", how=how, detail=silent)


def _first_difference(before, after):
    for old, new in zip(before.splitlines(), after.splitlines(), strict=False):
        if old != new:
            return f"- {old[:300]}\n+ {new[:300]}"
    return f"{len(before)} characters became {len(after)}"


def rounds(home, seed):
    """Damages without end: of every file in turn, each time in another way."""
    chosen = random.Random(seed)
    number = 0
    while True:
        for place in chosen.sample(files := home.files(), len(files)):
            number += 1
            name, own = chosen.choice(list(DAMAGES)), seed * 1_000_003 + number
            yield lambda tallies, n=name, p=place, s=own: home.damage(
                n, p, s, tallies[n]
            )  # type: ignore[misc]
        home.restore()
