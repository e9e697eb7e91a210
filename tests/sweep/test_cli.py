import codecs
import json
import os
import pkgutil
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sweep import cli, commands
from tests.libraries import IGNORED
from tests.sweep.json_schemas import checked
from tests.sweep.sweeps import make_store, run_toy, settings_in, space_in, write_corpus
from tests.sweep.untracked import run_untracked

pytestmark = IGNORED
FILES = [m.name for m in pkgutil.iter_modules(commands.__path__) if m.name[0] != "_"]
COMMANDS = sorted(name.replace("_", "-") for name in FILES)


@pytest.fixture
def place(place):
    """The same with a corpus and a store."""
    write_corpus(place)
    make_store(settings_in(place))
    return place


def space_file(folder, **fields):
    document = {**space_in(folder).document(), **fields}
    path = folder / "space.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def ran(*words, **options):
    """A process that has ended: of Python, or of a shell whose first argument is its
    path.
    """
    started = (
        [sys.executable, *words] if words[0][0] == "-" else [*words, sys.executable]
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.run(started, **{**pipes, **options})


HEAVY = (
    "torch",
    "ray",
    "mlflow",
    "pandas",
    "scipy",
    "numpy",
    "dp_accounting",
    "transformers",
)


def modules_after(*arguments):
    code = (
        "import sys; from sweep.cli import run; run(sys.argv[1:]);"
        "sys.stderr.write('\\n' + ' '.join(sys.modules))"
    )
    return set(ran("-c", code, *arguments, check=True).stderr.splitlines()[-1].split())


def test_help_imports_nothing_heavy():
    assert modules_after("--help").isdisjoint(HEAVY)


def test_a_command_imports_no_other_and_no_statistics(place):
    found = modules_after("list")
    slow = {"scipy.stats", "pandas", "matplotlib", "dp_accounting", "torch", "mlflow"}
    assert not slow & found
    own = {name for name in found if name.startswith("sweep.commands.")}
    assert {name for name in own if "._" not in name} == {"sweep.commands.list"}


def test_a_plan_needs_neither_torch_nor_ray_nor_mlflow():
    assert modules_after("plan", "quick", "--json").isdisjoint(
        {"torch", "ray", "mlflow", "pandas", "transformers"}
    )


def test_a_space_that_was_planned_is_planned_without_slow_imports(place):
    """What takes a second to import is not imported when every figure is known."""
    base = {"engine": "dp_sgd", "evaluation": {"attacks": ["loss_threshold"]}}
    axes = {"privacy.noise_multiplier": [{"target_epsilon": 8}]}
    space = place / "planned.yaml"
    space.write_text(yaml.safe_dump({"base": base, "axes": axes}))
    first, again = (modules_after("plan", str(space), "--json") for _ in range(2))
    assert "dp_accounting" in first
    assert again.isdisjoint({"dp_accounting", "scipy", "torch", "ray", "mlflow"})


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (["--help"], 4),
        pytest.param(["plan", "paper_linear", "--json"], 24, marks=pytest.mark.slow),
    ],
)
def test_an_answer_comes_in_time(arguments, most):
    """In starts of the libraries that every command needs (one takes 0.1 s where
    `--help` takes 0.3 s), which a slow or busy machine prolongs as well.
    """

    def seconds(*options):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ran(*options, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    libraries = "import pydantic, rich.console, typer"
    pairs = [
        (seconds("-m", "sweep", *arguments), seconds("-c", libraries)) for _ in range(3)
    ]
    answer, start = (min(each) for each in zip(*pairs, strict=True))
    assert answer < most * start


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, line):
    assert "Usage: " in line.says(command, "--help")


COMPLETED = {
    "sweep re": {"report", "resume"},
    "sweep run quick --tracking ml": {"mlflow"},
}


@pytest.mark.parametrize("line", COMPLETED)
def test_a_line_is_completed(line, monkeypatch, capsys):
    """As the script that a shell runs asks for it."""
    monkeypatch.setenv("_SWEEP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    with pytest.raises(SystemExit):
        cli.build()(args=[], prog_name="sweep")
    assert set(capsys.readouterr().out.split()) == COMPLETED[line]


@pytest.mark.parametrize(
    "words", [["run", "\udcff.yaml"], ["plan", "quick", "--set", "\udcff.path=1"]]
)
def test_an_argument_that_is_no_text_is_refused(line, words):
    assert r"expected arguments in UTF-8, got '\udcff." in line.refused(*words)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("missing", "expected a JSON-lines file"),
        ("tag", "mine.jsonl line 201"),
        ("encoding", "UTF-8"),
        ("empty", "got an empty file"),
        ("json", "mine.jsonl line 201"),
    ],
)
def test_a_damaged_data_file_is_refused_before_anything_starts(
    place, line, damage, message
):
    path = place / "mine.jsonl"
    lines = {
        "tag": b'{"tokens": ["secret"], "tags": ["X-city"], "intent": "call"}\n',
        "encoding": b'{"tokens": ["\xff\xfe"], "tags": ["O"], "intent": "call"}\n',
        "json": b'{"tokens": ["secret"], \n',
    }
    space = space_file(place)
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.write_bytes(path.read_bytes() + lines[damage])
    for command in ("plan", "run"):
        said = line.refused(command, space)
        assert message in said
        assert "secret" not in said
    assert not (place / "home" / "toy").exists()


@pytest.mark.parametrize(
    "variable", ["SWEEP_HOME", "SWEEP_DATA_DIR", "SWEEP_CACHE_DIR"]
)
@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("file", "Not a directory"),
        ("file/in/it", "Not a directory"),
        ("dangling/in/it", "the link leads nowhere"),
        ("loop", "Too many levels of symbolic links"),
        ("a" * 600, "File name too long"),
        ("\udcff", "without halves of surrogate pairs"),
    ],
)
def test_a_folder_that_can_be_none_is_named(
    place, line, monkeypatch, variable, where, reason
):
    (place / "file").touch()
    (place / "dangling").symlink_to("nowhere")
    (place / "loop").symlink_to("loop")
    monkeypatch.setenv(variable, str(place / where))
    for command in (["run", space_file(place)], ["list"]):
        said = line.refused(*command)
        assert (
            f"expected {variable} to be a folder, or the path of a new one, got '"
            in said
        )
        assert reason in said


def test_a_home_that_cannot_be_created_is_a_refusal(place, line, monkeypatch):
    monkeypatch.setenv("SWEEP_CACHE_DIR", "/proc/no/cache")
    assert "(/proc/no" in line.refused(
        "data", "check", "json_lines", "--set", f"path={place / 'mine.jsonl'}"
    )


@pytest.mark.parametrize(
    ("problem", "code", "message"),
    [
        (ConnectionError(), 1, "ConnectionError at test_cli.py:"),
        (ConnectionError("no Ray at\nauto"), 1, "no Ray at auto\n"),
        (OSError("https://ann:s3cret@host is gone"), 1, "https://ann:***@host is gone"),
        (IsADirectoryError(21, "Is a directory", "mine"), 2, "Is a directory (mine)"),
        (MemoryError(), 1, "too little memory"),
        (RuntimeError("can't start new thread"), 1, "can't start new thread"),
    ],
)
def test_a_problem_of_the_system_has_words(line, monkeypatch, problem, code, message):
    def fail(arguments):
        raise problem

    monkeypatch.setattr(cli, "build", fail)
    found, out, err = line("list")
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert f"error: {message}" in err or message in err


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_plan_without_a_trial_to_run_is_a_refusal(place, line, form):
    """The exit code and the sentence are those of `sweep run`; the refused trials are
    listed.
    """
    given = [space_file(place), "--set", "budget.epsilon=0.001"]
    code, out, err = line("plan", *given, *form)
    assert (code, err) == (2, line("run", *given)[2])
    assert "points other than baselines are refused" in err
    assert "exceeds budget.epsilon=0.001" in out


def test_a_finished_sweep_is_exported_and_deleted(place, line):
    run_toy(place)
    trial = line.facts("show", "toy")["trials"][1]["id"]
    target = place / "best"
    assert "above 10" in line.refused("export", "toy", "--to", target)
    large = ["export", "toy", "--any-epsilon", "--to"]
    found = line.facts(*large, target)
    assert found["exported"] == [str(target)]
    assert found["epsilons"] == [pytest.approx(32.18, abs=0.01)]
    for option in (["--best", "leakage"], ["--epsilon-max", "8"]):
        said = line.refused("export", "toy", "--trial", trial, *option)
        assert (
            f"expected --trial or {' '.join(option)}, which chooses a trial, got both"
            in said
        )
        assert not Path(f"toy-{trial}").exists()
    many = place / "front"
    exported = line.facts(*large, many, "--best", "pareto")["exported"]
    assert all((many / Path(path).name / "config.yaml").exists() for path in exported)
    assert "exists" in line.refused("run", space_file(place))
    assert "is not running" in line.refused("stop", "toy")
    line.says("delete", "toy", "--yes")
    assert line.facts("list")["sweeps"] == []
    assert line.facts("ledger")["datasets"][0]["num_trials"] == 3


def test_a_command_ends_when_its_threads_and_exit_functions_have():
    """What is printed arrives whole, with the exit code; no object is freed one by
    one.
    """
    program = """
import atexit, threading, time
from sweep import cli
class Heavy:
    def __del__(self):
        print("freed")
kept = Heavy()
def later():
    time.sleep(0.1)
    print("a thread")
def run(arguments=None):
    atexit.register(print, "an exit function")
    threading.Thread(target=later).start()
    print("output")
    return 3
cli.run = run
cli.main()
"""
    done = ran("-c", program)
    assert done.stdout.splitlines() == ["output", "a thread", "an exit function"]
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize("fails", ["raise ValueError('ours')", "print('x' * 9)"])
def test_the_interpreter_reports_what_the_command_cannot(fails):
    program = f"""
from sweep import cli
def run(arguments=None):
    {fails}
    return 0
cli.run = run
cli.main()
"""
    with Path("/dev/full").open("w") as full:
        done = ran("-c", program, stdout=full)
    assert done.returncode != 0
    assert "ours" in done.stderr or "No space left on device" in done.stderr


def test_a_full_disk_behind_stdout_is_not_that_of_the_working_folder():
    with Path("/dev/full").open("w") as full:
        done = ran("-m", "sweep", "--version", stdout=full)
    assert done.returncode == 1
    assert done.stderr == "error: cannot write to stdout: No space left on device\n"


SEVERAL = """
import sys
from sweep import cli
one = cli.run
cli.run = lambda: max(one(words.split()) for words in sys.argv[1:])
cli.main()
"""


def test_any_stream_takes_any_answer(place):
    run_untracked(place)
    c = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    for environment in (
        c,
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
    ):
        commands = ("show toy --json", "show toy", "fields", "data list")
        done = ran(
            "-c", SEVERAL, *commands, env={**os.environ, **environment}, text=False
        )
        assert (done.returncode, done.stderr) == (0, b"")
        first, end = json.JSONDecoder().raw_decode(done.stdout.decode("latin-1"))
        assert first["trials"]
        assert b"communication" in done.stdout[end:]


@given(st.text(), st.sampled_from(["ascii", "latin-1", "utf-8", "cp1252"]))
def test_json_stays_json_in_any_encoding(text, encoding):
    codecs.register_error("as-json", cli._as_json)
    written = json.dumps(text, ensure_ascii=False).encode(encoding, "as-json")
    assert json.loads(written.decode(encoding)) == text


@pytest.mark.parametrize("command", ["fields", "show toy --json"])
def test_a_reader_that_leaves_is_told_nothing(command, place):
    run_untracked(place)
    pipe = f'"$0" -m sweep {command} | true; exit "${{PIPESTATUS[0]}}"'
    done = ran("bash", "-c", pipe)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("stderr", [">&-", ">/dev/full"])
def test_a_refusal_may_have_no_stderr(stderr):
    done = ran("sh", "-c", f'"$0" -m sweep fly 2{stderr}')
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("kilobytes", [150_000, 260_000])
def test_little_memory_is_one_line(kilobytes, place):
    """At the second one OpenBLAS would wait for memory for ever."""
    command = f'ulimit -v {kilobytes}; "$0" -m sweep plan "{space_file(place)}"'
    done = ran("sh", "-c", command)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "emory" in done.stderr


def test_a_command_may_have_no_stdout():
    done = ran("sh", "-c", '"$0" -m sweep --help >&-')
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupted_command_may_have_no_stdout():
    program = """
import os, signal, time
from sweep import cli
def run(arguments=None):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
cli.run = run
cli.main()
"""
    done = ran("sh", "-c", f'"$0" -c "{program}" >&-')
    assert done.returncode == 143
    assert done.stderr.startswith("interrupted")


@pytest.mark.slow  # MLflow's server takes 8 seconds and more
def test_the_ui_serves_mlflow_and_ends_with_its_process(place):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "sweep", "ui", "--port", str(port), "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    printed = ""
    while not printed.endswith("}\n"):
        printed += process.stdout.readline()
    from sweep.serve import _is_open, _status

    found = checked("ui", printed)
    address = f"http://127.0.0.1:{port}"
    assert found["mlflow"] == f"{address}/?token={found['token']}"
    assert len(found["token"]) >= 22
    assert _status(f"{address}/health") == 401
    assert _status(f"{address}/health", found["token"]) == 200
    with build_opener(HTTPCookieProcessor()).open(
        found["mlflow"]
    ) as page:  # as a browser does
        assert (page.status, page.url) == (200, f"{address}/")
    process.terminate()
    assert process.wait(30) == 143
    process.stdout.close()
    deadline = time.monotonic() + 10
    while _is_open(port) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _is_open(port)
