"""Putting a mutant into a forked process: into its living functions, or under the
import.
"""

from __future__ import annotations

import gc
import sys
from collections import defaultdict
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, FunctionType

from .operators import mutated
from .targets import Target


def live_functions(targets):
    """The functions of each target that this process has imported, by the target's
    name.
    """
    names = {str(target.path): target.name for target in targets}
    found = defaultdict(list)
    gc.unfreeze()  # those of the collection of tests are not listed otherwise
    for thing in gc.get_objects():
        if type(thing) is FunctionType:  # isinstance would wake lazy objects
            name = names.get(thing.__code__.co_filename)
            if name is not None:
                found[name].append(thing)
    return found


def put_into(functions, mutant):
    """Give living functions the mutant's code; whether any changed (ValueError: a
    closure).
    """
    path = Target(mutant.file).path
    source = path.read_text(encoding="utf-8")
    before = _codes(compile(source, str(path), "exec"))
    after = _codes(compile(mutated(source, mutant), str(path), "exec"))
    changed = {
        name: code
        for name, code in after.items()
        if name in before and not _equal(code, before[name])
    }
    found = False
    for function in functions:
        code = function.__code__
        new = changed.get((code.co_qualname, code.co_firstlineno))
        if new is not None:
            function.__code__ = new
            found = True
    return found


def changes_code(mutant):
    """Whether the compiler makes other code of the mutant at all."""
    path = Target(mutant.file).path
    source = path.read_text(encoding="utf-8")
    before = compile(source, str(path), "exec")
    return not _equal(compile(mutated(source, mutant), str(path), "exec"), before)


def _codes(code):
    found = {(code.co_qualname, code.co_firstlineno): code}
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found |= _codes(const)
    return found


def _equal(one, two):
    """Equal but for the places in the text."""
    if one.co_code != two.co_code or one.co_names != two.co_names:
        return False
    if one.co_varnames != two.co_varnames or len(one.co_consts) != len(two.co_consts):
        return False
    return all(
        _equal(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType)
        else type(a) is type(b) and repr(a) == repr(b)
        for a, b in zip(one.co_consts, two.co_consts, strict=True)
    )  # fmt: skip


class _Loader(SourceFileLoader):
    """Gives a module the mutant's code."""

    def __init__(self, mutant):
        target = Target(mutant.file)
        super().__init__(target.module, str(target.path))
        self._mutant = mutant

    def get_code(self, fullname):
        """That of no file."""
        source = Path(self.path).read_text(encoding="utf-8")
        return compile(mutated(source, self._mutant), self.path, "exec")

    def find_spec(self, name, path, target=None):
        """Its own module's alone."""
        return spec_from_file_location(name, loader=self) if name == self.name else None


def import_with(mutant):
    """Whoever imports the mutant's module from now on gets the fault."""
    sys.meta_path.insert(0, _Loader(mutant))


def read_with(mutant):
    """Whoever reads the C source from now on reads the fault."""
    right = Path.read_text
    path = Target(mutant.file).path

    def read_text(self, *how, **more):
        text = right(self, *how, **more)
        return mutant.applied(text) if self.resolve() == path else text

    Path.read_text = read_text
