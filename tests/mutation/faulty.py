"""Putting a mutant into a process: into the functions that live there, or under the import.

Both change this process alone, which is a fork that ends with the mutant.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import sys
from collections import defaultdict
from pathlib import Path
from types import CodeType, FunctionType

from .operators import mutated
from .targets import Target


def live_functions(targets):
    """The functions of each target that this process has imported, by the target's name."""
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
    """Give the living functions of a file the mutant's code; whether any changed.

    Raises: ValueError where the fault changes which names a function closes over.
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


class Importer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module the mutant's code when it is imported."""

    def __init__(self, mutant):
        self._target = Target(mutant.file)
        self._mutant = mutant

    def find_spec(self, name, path, target=None):
        """Its own module's alone."""
        if name != self._target.module:
            return None
        return importlib.machinery.ModuleSpec(
            name, self, origin=str(self._target.path), is_package=self._is_package
        )

    @property
    def _is_package(self):
        return self._target.path.name == "__init__.py"

    def create_module(self, spec):
        """The usual one."""

    def exec_module(self, module):
        """Run the mutant's code in it."""
        path = self._target.path
        module.__file__ = str(path)
        if self._is_package:
            module.__path__ = [str(path.parent)]
        tree = mutated(path.read_text(encoding="utf-8"), self._mutant)
        exec(compile(tree, str(path), "exec"), module.__dict__)


def import_with(mutant):
    """Whoever imports the mutant's module from now on gets the fault."""
    sys.meta_path.insert(0, Importer(mutant))


def read_with(mutant):
    """Whoever reads the C source from now on reads the fault."""
    right = Path.read_text
    path = Target(mutant.file).path

    def read_text(self, *how, **more):
        text = right(self, *how, **more)
        return mutant.applied(text) if self.resolve() == path else text

    Path.read_text = read_text
