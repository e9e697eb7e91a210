"""The `sweep` command. Each file in `sweep/commands` is one command; errors are handled
here.

Exit codes: 0 done, 1 a run failed, 2 the input was refused, 130 interrupted (SIGINT),
143 ended by SIGTERM or `sweep stop`. Signals are handled before anything but the
standard library loads.
"""

from __future__ import annotations

import atexit
import codecs
import errno
import importlib
import io
import json
import os
import pkgutil
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep import interrupts

if TYPE_CHECKING:
    import typer


_LEAST_MEMORY = 512 << 20  # bytes of address space (`ulimit -v`)
# What libraries say where the system gives no more memory or threads.
_SHORTAGE = (
    "Cannot allocate memory",
    "DefaultCPUAllocator: can't allocate memory",
    "can't start new thread",
    "error return without exception set",
    "failed to map segment from shared object",
)
# Headings of `sweep --help`, by what people do; a command of none is under "Commands".
_GROUPS = {
    "Sweeps": ("plan", "run", "resume", "extend", "stop", "list", "delete", "fields"),
    "Results": (
        "show",
        "report",
        "ui",
        "compare",
        "errors",
        "export",
        "predict",
        "score",
    ),
    "Own data": ("init", "data"),
    "Privacy": (
        "epsilon",
        "ledger",
        "home",
        "unseal",
        "attack",
        "audit",
        "audit_release",
    ),
    "Public models and generated text": ("pretrain", "synthesize", "parser"),
}


def build(arguments: Sequence[str] = ()) -> typer.Typer:
    """The application with the command that `arguments` begin with, or with every one
    of the folder where that is none.
    """
    import typer

    from sweep import commands
    from sweep.commands._root import root

    app = typer.Typer(
        name="sweep",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    group_of = {name: group for group, names in _GROUPS.items() for name in names}
    files = [
        each.name
        for each in pkgutil.iter_modules(commands.__path__)
        if each.name[0] != "_"
    ]
    named = arguments[0].replace("-", "_") if arguments else ""
    if named in files:
        files = [named]
    for name in sorted(files, key=[*group_of, *files].index):
        group = group_of.get(name, "Commands")
        command = getattr(importlib.import_module(f"{commands.__name__}.{name}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=group)
        else:
            app.command(name.replace("_", "-"), rich_help_panel=group)(command)
    return app


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code. What was refused is one line on stderr."""
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        if sys.stdout is not None:  # closed by the caller
            sys.stdout.flush()  # a full disk shows only here
        return code
    except KeyboardInterrupt as stopped:
        return _refuse(str(stopped) or "interrupted", code=130)
    except Exception as problem:
        explained = _explain(problem)
        if explained is None:
            raise
        message, code = explained
        return _refuse(message, code=code) if message else code


def _run(arguments: Sequence[str]) -> int:
    import typer

    # What the parser raises for a wrong option; the library exports its subclasses
    # only.
    parser_error: Any = typer.BadParameter.__mro__[2]
    try:
        _require_text(arguments)
        _require_memory(arguments)
        code = build(arguments)(args=arguments, standalone_mode=False)
    except typer.Exit as leaving:
        return leaving.exit_code
    except SystemExit:  # of a library that prints: the reader of stdout is gone
        return _without_reader()
    except typer.Abort:
        return _refuse("not confirmed: nothing was changed", code=1)
    except parser_error as problem:
        message = problem.format_message()
        # Without arguments the help has been printed already.
        return _refuse(message, code=2) if message else 2
    return code if isinstance(code, int) else 0


def _explain(problem: Exception) -> tuple[str, int] | None:
    """(message, exit code) of what was refused, or failed for a reason of the system,
    without a message where the reader of stdout has ended; None for an error of this
    program.
    """
    lacks = [words for words in _SHORTAGE if words in str(problem)]
    if lacks or isinstance(problem, MemoryError):
        said = f" ({lacks[0]})" if lacks else ""
        return (
            f"too little memory, or too few threads, for this command{said}: see"
            f" `ulimit -a`",
            1,
        )
    from trainables.errors import InvalidInput, SweepError, system_words, words_of
    from trainables.io import disk

    if isinstance(problem, SweepError):
        return words_of(problem), 2 if isinstance(problem, InvalidInput) else 1
    try:
        here = Path.cwd()
    except OSError:  # it was removed
        here = Path()
    if (failure := disk.failure_of(problem, here)) is not None:
        is_of_stream = isinstance(problem, OSError) and problem.filename is None
        if is_of_stream and (closed := _problem_of_stdout()) is not None:
            if closed.errno == errno.EPIPE:
                return "", _without_reader()
            return f"cannot write to stdout: {system_words(closed)}", 1
        return f"{failure}: run the same command again", 1
    if not isinstance(problem, OSError):
        return None
    # A file that is named is one of the command line or of the environment.
    return words_of(problem), 1 if problem.filename is None else 2


def _without_reader() -> int:
    """The exit code where the reader of stdout has ended, as `head` does; says nothing.
    What is left to be written goes nowhere.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 1


def _problem_of_stdout() -> OSError | None:
    """Why stdout takes no line; None where it does. The error of a write names no
    file.
    """
    try:
        if sys.stdout is not None:  # closed by the caller
            os.write(1, b"\n")
    except OSError as problem:
        return problem
    return None


def _require_text(words: Sequence[str]) -> None:
    """Raises: InvalidInput for a word that is no UTF-8: a sweep's files could not hold
    it.
    """
    from trainables.errors import InvalidInput, quote
    from trainables.io.documents import DocumentProblem, require_text

    for word in words:
        try:
            require_text(word)
        except DocumentProblem:
            raise InvalidInput(
                f"expected arguments in UTF-8, got {quote(word)}"
            ) from None


def _require_memory(arguments: Sequence[str]) -> None:
    """Raises: MemoryError below a limit of address space at which OpenBLAS, when it is
    imported, asks again and again and heeds no signal.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if (
        limit != resource.RLIM_INFINITY
        and limit < _LEAST_MEMORY
        and "--help" not in arguments
    ):
        raise MemoryError


def main() -> None:
    """The entry point of the `sweep` script. What it writes is for its owner alone."""
    os.umask(0o077)
    codecs.register_error("as-json", _as_json)
    for stream in (sys.stdout, sys.stderr):  # None: closed by the caller
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="as-json")
    exits = QuickExit()
    atexit.register(exits)  # the first to be registered is the last to be called
    exits.code = interrupts.run(run)
    sys.exit(exits.code)


def _as_json(error: UnicodeError) -> tuple[str, int]:
    """What a stream cannot encode, as JSON has it (\\u03b5): what is JSON stays
    JSON.
    """
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


class QuickExit:
    """Ends this process with `code` once all threads and exit functions are done. The
    interpreter would free every object of PyTorch, Ray and MLflow first, which takes
    more than a second.
    """

    code: int | None = None

    def __call__(self) -> None:
        """The exit function."""
        if self.code is None:  # an exception of ours: the interpreter has printed it
            return
        try:
            # None: closed by the caller.
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        except (OSError, ValueError):
            if self.code == 0:
                return  # the interpreter reports that; what failed has been reported
        os._exit(self.code)


def _refuse(message: str, *, code: int) -> int:
    from sweep.settings import hide_passwords
    from trainables.errors import one_line

    with suppress(OSError, ValueError):  # the exit code remains
        if sys.stderr is not None:  # closed by the caller
            said = f"error: {one_line(hide_passwords(message))}"
            print(said, file=sys.stderr, flush=True)  # noqa: T201
    return code
