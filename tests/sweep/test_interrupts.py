"""A process that is asked to end says so first, in one line, and ends whole: see
`sweep.interrupts`. Each case is a program of its own.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def not_in_the_background():
    """A shell starts background jobs with Ctrl-C ignored, and `nohup` with SIGHUP;
    programs below would inherit it.
    """
    ignored = [
        number
        for number in (signal.SIGINT, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_IGN
    ]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


STARTED = []


@pytest.fixture(autouse=True)
def no_program_outlives_its_test():
    """Also where the test fails before the program ends."""
    yield
    for process in STARTED:
        with process:  # closes its pipes and waits
            process.kill()
    STARTED.clear()


def start(body, *, before=""):
    """A program whose work is `body`, which says `ready` when it may be interrupted."""
    program = f"""
import os, signal, subprocess, sys, threading, time
{before}
from sweep import interrupts
def work():
{textwrap.indent(textwrap.dedent(body), "    ")}
    return 0
sys.exit(interrupts.run(work))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    STARTED.append(process)
    assert process.stdout.readline() == "ready\n"
    return process


def ending(process):
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_one_line_and_the_exit_code(number):
    process = start(
        """
        interrupts.now.explain = lambda: "all is saved; `go` continues"
        try:
            print("ready", flush=True)
            time.sleep(60)
        finally:
            print("a traceback, say", file=sys.stderr)
            print("half of an answer")
        """
    )
    process.send_signal(number)
    expected = "interrupted: all is saved; `go` continues\n"
    assert ending(process) == (128 + number, "half of an answer\n", expected)


def test_the_line_is_the_last_one_whatever_is_written(tmp_path):
    """A live table that is drawn again after the line would wipe it out."""
    process = start(
        f"""
        os.dup2(os.open({str(tmp_path / "stderr")!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
        def draw():
            while True:
                os.write(2, b"a frame\\n")
        for _ in range(4):
            threading.Thread(target=draw, daemon=True).start()
        print("ready", flush=True)
        time.sleep(60)
        """
    )
    process.send_signal(signal.SIGTERM)
    assert ending(process)[0] == 143
    *_, last = (tmp_path / "stderr").read_text().splitlines()
    assert last.startswith("interrupted: ")


@pytest.mark.parametrize(
    "swallows", ["pass", "raise SystemExit(1)", "raise ValueError"]
)
def test_the_exit_code_holds_whatever_becomes_of_the_exception(swallows):
    process = start(
        f"""
        try:
            print("ready", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            {swallows}
        """
    )
    process.send_signal(signal.SIGTERM)
    code, _, err = ending(process)
    assert code == 143
    assert err.count("\n") == 1


def test_a_long_call_delays_no_line_and_ends_at_the_second_signal():
    process = start(
        """
        try:
            print("ready", flush=True)
            time.sleep(60)
        finally:
            time.sleep(60)
        """
    )
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().startswith("interrupted: ")
    assert time.monotonic() - begun < 20  # of the 60 seconds that it sleeps
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert ending(process)[0] == 130
    assert time.monotonic() - begun < 40


def test_a_request_in_a_file_counts_as_sigterm(tmp_path):
    process = start(
        f"""
        print("ready", flush=True)
        interrupts.now.is_requested = lambda: os.path.exists({str(tmp_path / "stop")!r})
        threading.Event().wait()
        """
    )
    (tmp_path / "stop").touch()
    code, _, err = ending(process)
    assert (code, err.count("interrupted: ")) == (143, 1)


def test_no_process_is_left_not_even_an_orphan():
    """A child that ignores signals, and its own child, whose parent dies first."""
    child = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        " print('ready', flush=True); time.sleep(60)"
    )
    grown = (
        "import subprocess, sys, time;"
        f" subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    )
    process = start(
        f"""
        subprocess.Popen([sys.executable, "-c", {grown!r}])
        time.sleep(60)
        """
    )
    group = [each.pid for each in psutil.Process(process.pid).children(recursive=True)]
    assert len(group) == 2
    process.send_signal(signal.SIGTERM)
    assert ending(process)[0] == 143
    for pid in group:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_signal_to_a_forked_process_is_not_this_ones():
    process = start(
        """
        print("ready", flush=True)
        begun, begins = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(begins, b"-")
            time.sleep(60)
        os.read(begun, 1)
        os.kill(child, signal.SIGTERM)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        time.sleep(0.3)
        """
    )
    assert ending(process) == (0, f"{-signal.SIGTERM}\n", "")


def test_a_signal_that_was_ignored_stays_ignored():
    """A shell starts background jobs so, and `nohup` does."""
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    process = start('print("ready", flush=True); time.sleep(0.5)', before=ignored)
    process.send_signal(signal.SIGINT)
    assert ending(process) == (0, "", "")


def test_a_signal_while_the_interpreter_ends_changes_nothing():
    """All was done: the exit code is that of the work, not that of a process that was
    killed.
    """
    process = start(
        "sys.last = AtEnd()",
        before="""
class AtEnd:  # deleted with the modules, when Python has given the signals up
    def __del__(self, sleep=time.sleep, write=os.write):
        write(1, b"ready\\n")
        sleep(1)
""",
    )
    process.send_signal(signal.SIGTERM)
    assert ending(process) == (0, "", "")
