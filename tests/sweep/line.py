"""Command lines of `sweep`, run in this process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sweep import cli
from tests.sweep.json_schemas import checked


class Line:
    """Called with the words of a command line, gives its exit code, stdout and stderr."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = cli.run([str(word) for word in words])
        return code, *self._capsys.readouterr()

    def says(self, *words: object) -> str:
        """What a command prints that is done."""
        code, out, err = self(*words)
        assert code == 0, err
        return out

    def facts(self, *words: object) -> dict[str, Any]:
        """What it prints for programs."""
        found: dict[str, Any] = json.loads(self.says(*words, "--json"))
        return found

    def document(self, command: str, *words: object) -> dict[str, Any]:
        """Them without their key `schema`, as their schema says."""
        return checked(command, self.says(*command.split(), *words, "--json"))

    def refused(self, *words: object) -> str:
        """The one line of a command that is refused."""
        code, out, err = self(*words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("error: ")
        return err
