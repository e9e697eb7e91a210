"""Command lines of `sweep`, run in this process."""

import json

from sweep import cli
from tests.sweep.json_schemas import checked


class Line:
    """Called with the words of a command line, gives its exit code, stdout and
    stderr.
    """

    def __init__(self, capsys):
        self._capsys = capsys

    def __call__(self, *words):
        self._capsys.readouterr()
        code = cli.run([str(word) for word in words])
        return code, *self._capsys.readouterr()

    def says(self, *words):
        """What a command prints that is done."""
        code, out, err = self(*words)
        assert code == 0, err
        return out

    def facts(self, *words):
        """What it prints for programs."""
        return json.loads(self.says(*words, "--json"))

    def document(self, command, *words):
        """Them without their key `schema`, as their schema says."""
        return checked(command, self.says(*command.split(), *words, "--json"))

    def refused(self, *words):
        """The one line of a command that is refused."""
        code, out, err = self(*words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("error: ")
        return err
