"""Damage to every file of a finished sweep and of an export, and every command that reads them.

A damage counts as noticed where some command refuses or marks it, as harmless where all of them
print what they printed before.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from sweep.results.export import export_trial
from sweep.store.sweeps import SweepFolder
from tests.torture.outcome import Tally, run

_CHANGES = re.compile(r"\"(seconds|created|time|eta)\": [^,\n]*|[0-9.]+ s\b|/[^ \"]*torture[^ \"]*")


def _cut(path: Path, random: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: random.randrange(len(content)) if content else 0])


def _flip(path: Path, random: random.Random) -> None:
    content = bytearray(path.read_bytes() or b"x")
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(bytes(content))


def _noise(path: Path, random: random.Random) -> None:
    content = path.read_bytes()
    start = random.randrange(len(content) + 1)
    path.write_bytes(content[:start] + random.randbytes(16) + content[start + 16 :])


def _folder(path: Path, random: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _other(path: Path, random: random.Random) -> None:
    path.write_text(random.choice(["", "null", "[]", "{}", "3", '"x"', "[[[", "NaN", "\0", "a: b"]))


def _deep(path: Path, random: random.Random) -> None:
    path.write_text("[" * 100_000)


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "cut": _cut,
    "bit flipped": _flip,
    "bytes overwritten": _noise,
    "missing": lambda path, random: path.unlink(),
    "a folder": _folder,
    "something else": _other,
    "nested deep": _deep,
    "not readable": lambda path, random: path.chmod(0),
}


class Home:
    """A home with a finished sweep and an export, restored after each damage."""

    def __init__(self, sweep: SweepFolder, work: Path) -> None:
        self.home, self._kept = work / "torture-home", work / "torture-kept"
        shutil.copytree(sweep.path.parent, self._kept / "home")
        best = next(each for each in sweep.records() if each.privacy is not None)
        export_trial(sweep, best, self._kept / "home" / "export-of-it")
        self.name, self.trial = sweep.name, best.plan.id
        self.restore()
        self.before = {command: self._say(command, Tally()) for command in self.commands()}

    def restore(self) -> None:
        """The home as it was."""
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(self._kept / "home", self.home)

    def files(self) -> list[Path]:
        """All files, by their place in the home."""
        found = (path for path in self.home.rglob("*") if path.is_file())
        return sorted(path.relative_to(self.home) for path in found)

    def commands(self) -> list[tuple[str, ...]]:
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
            ("export", self.name, "--to", str(out)),
            ("predict", str(export), "--json"),
        ]

    def _say(self, command: tuple[str, ...], tally: Tally, how: str = "") -> str:
        with mock.patch.dict(os.environ, {"SWEEP_HOME": str(self.home)}):
            code, said = run(command, tally, how=how, stdin=b"flights to boston\n")
        shutil.rmtree(self.home / "out", ignore_errors=True)
        return f"{code} {_CHANGES.sub('', said)}"

    def damage(self, name: str, place: Path, seed: int, tally: Tally) -> None:
        """One damage, and all commands."""
        how = f"{name}: {place}, seed {seed}"
        self.restore()
        DAMAGES[name](self.home / place, random.Random(seed))
        differs = False
        for command in self.commands():
            if command[0] == "report" and seed % 8:  # ten times as slow as the others
                continue
            differs |= self._say(command, tally, how) != self.before[command]
        with contextlib.suppress(FileNotFoundError):
            (self.home / place).chmod(0o700)
        tally.add("damages noticed" if differs else "damages harmless")


def rounds(home: Home, seed: int) -> Iterator[Callable[[Tally], None]]:
    """Damages without end: of every file in turn, each time in another way."""
    chosen = random.Random(seed)
    number = 0
    while True:
        for place in chosen.sample(files := home.files(), len(files)):
            number += 1
            name, own = chosen.choice(list(DAMAGES)), seed * 1_000_003 + number
            yield lambda tally, n=name, p=place, s=own: home.damage(n, p, s, tally)  # type: ignore[misc]
        home.restore()
