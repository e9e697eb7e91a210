"""Starting a local Ray on a slow machine, and a missing cluster."""

import atexit
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path

import psutil
import pytest
import ray

from sweep.runtime import ray_session
from sweep.runtime.events import RunSettings
from sweep.runtime.runner import _require_answer as require_answer
from sweep.runtime.runner import require_executor
from tests.refusals import refused
from trainables.errors import InvalidInput, SweepError

ROOT = Path(__file__).parents[3]
# Ray leaves sockets of its children open.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def ended(monkeypatch):
    """How sessions of a Ray that is started in name only end: a shutdown, or an exit
    code.
    """
    ends = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_session, "_start_local", lambda **options: None)
    monkeypatch.setattr(ray, "shutdown", lambda: ends.append("shut down"))
    monkeypatch.setattr(os, "_exit", ends.append)
    monkeypatch.setattr(atexit, "register", lambda what: what())
    return ends


SLOW = "The current node timed out during startup. This could happen because ..."


def test_the_daemons_of_a_node_that_was_too_slow_end_before_the_next_start(monkeypatch):
    """Ray's shutdown knows nothing of them; no other child of this process is meant."""
    place = Path(ray.__file__).parent / "gcs_server"
    own = subprocess.Popen(["sleep", "600"])
    daemons = []

    def init(**options):
        if daemons:
            daemons[0].wait(60)
            return
        wait = "import time; print(flush=True); time.sleep(600)"
        command = [sys.executable, "-c", wait, str(place)]
        daemons.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        # Linux shows no command line of a process until it has begun its program.
        assert daemons[0].stdout.readline()
        raise RuntimeError(SLOW)

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    try:
        ray_session._start_local(num_cpus=2)
        assert own.poll() is None
    finally:
        for process in (own, *daemons):
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    ("failures", "tries", "ends"),
    [
        ([Exception(SLOW)], 2, nullcontext()),
        ([Exception(SLOW)] * 3, 3, refused("3 tries", SweepError)),
        (
            [ValueError("no such option")],
            1,
            pytest.raises(ValueError, match="no such option"),
        ),
    ],
)
def test_a_node_that_is_too_slow_alone_is_started_again(
    failures, tries, ends, monkeypatch
):
    """Replace Ray's own start by one that fails with these, then succeeds."""
    left, calls = iter(failures), []

    def init(**options):
        calls.append(options)
        for failure in left:
            raise failure

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with ends:
        ray_session._start_local(num_cpus=2)
    assert calls == [{"num_cpus": 2}] * tries


def test_a_ray_that_lost_a_daemon_is_neither_shut_down_nor_used_again(
    ended, monkeypatch
):
    """After a shutdown Ray would end this process at the next call of any thread."""
    daemon = subprocess.Popen(["sleep", "60"])
    try:
        with ray_session.session(RunSettings()):
            monkeypatch.setitem(
                ray_session._daemons, "raylet", psutil.Process(daemon.pid)
            )
            assert ray_session.dead_daemon() is None
            daemon.kill()
            daemon.wait()
        assert ended == [0]
        monkeypatch.setattr(ray, "is_initialized", lambda: True)
        with (
            refused("start a new process", SweepError),
            ray_session.session(RunSettings()),
        ):
            raise AssertionError("a dead Ray is used")
    finally:
        daemon.kill()
        daemon.wait()


@pytest.mark.parametrize(
    ("failure", "code"),
    [(None, 0), (SweepError("Ray broke down"), 1), (InvalidInput("expected rows"), 2)],
)
def test_a_ray_that_threads_still_call_is_left_to_the_end_of_the_process(
    ended, failure, code
):
    """A shutdown would end this process at their next call, before a failure has its
    line.
    """
    over = threading.Event()
    thread = ray_session.caller(over.wait, 60.0)
    thread.start()
    try:
        expected = pytest.raises(type(failure)) if failure else nullcontext()
        with expected, ray_session.session(RunSettings()):
            if failure:
                raise failure
        assert ended == [code]
    finally:
        over.set()
        thread.join()
    with ray_session.session(RunSettings()):
        pass
    assert ended == [code, "shut down"]


@pytest.mark.parametrize(
    ("still_called", "interrupted"), [(False, False), (True, False), (False, True)]
)
def test_agents_end_with_a_raylet_that_was_killed(
    ended, monkeypatch, still_called, interrupted
):
    """Ray gives a raylet one second to end them, which a busy machine does not keep;
    after an interrupt they have no parent.
    """
    raylet = subprocess.Popen(
        ["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE
    )
    agent = psutil.Process(int(raylet.stdout.readline()))

    def shut_down():
        raylet.kill()
        if interrupted:
            raise KeyboardInterrupt

    monkeypatch.setattr(ray, "shutdown", shut_down)
    over = threading.Event()
    thread = ray_session.caller(over.wait, 60.0)
    ends = pytest.raises(KeyboardInterrupt) if interrupted else nullcontext()
    try:
        if still_called:
            thread.start()
        with ends, ray_session.session(RunSettings()):
            monkeypatch.setitem(
                ray_session._daemons, "raylet", psutil.Process(raylet.pid)
            )
        psutil.wait_procs([agent], timeout=60)
        assert not agent.is_running() or agent.status() == psutil.STATUS_ZOMBIE
        assert ray_session._daemons == {} or still_called
    finally:
        over.set()
        for process in (agent, psutil.Process(raylet.pid)):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        raylet.communicate()
        if thread.ident is not None:
            thread.join()


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "localhost:{}"])
def test_an_address_that_does_not_answer_is_refused_at_once(silent_port, form):
    address, started = form.format(silent_port), time.monotonic()
    with refused(rf"got '{address}': nothing answers there"):
        require_executor(RunSettings(executor="gang", address=address))
    assert time.monotonic() - started < 10


def test_an_address_that_answers_is_tried():
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_answer(f"127.0.0.1:{server.getsockname()[1]}")
    require_answer("auto")  # Ray looks for it


def test_the_address_that_auto_stands_for_must_answer(silent_port, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{silent_port}")
    with refused(rf"got '127.0.0.1:{silent_port}': nothing answers"):
        require_executor(RunSettings(address="auto"))


@pytest.mark.parametrize(
    "address",
    ["", "local", "nowhere", "127.0.0.1", "ray://127.0.0.1", "http://127.0.0.1:8265"],
)
def test_an_address_of_another_form_is_refused_at_once(address):
    with refused(rf"address to be HOST:PORT .* or auto .*'{address}'"):
        require_executor(RunSettings(address=address))


# What the shell of a user of another Ray may have: each alone stops a cluster of our
# own, or a sweep on it.
OTHERS = {
    "RAY_ADDRESS": "auto",
    "RAY_REDIS_ADDRESS": "127.0.0.1:1",
    "RAY_CLIENT_MODE": "1",
    "RAY_USE_TLS": "1",
    "RAY_RUNTIME_ENV_HOOK": "nowhere.hook",
    "RAY_JOB_CONFIG_JSON_ENV_VAR": '{"runtime_env": {"working_dir":'
    ' "gcs://nowhere.zip"}}',
    "RAY_OVERRIDE_RESOURCES": '{"CPU": 0}',
    "RAY_TRAIN_V2_ENABLED": "0",
    "RAY_AUTH_TOKEN_PATH": "/nowhere/token",
}


def run_toy_beside(folder, ray_files, **variables):
    """A sweep on Ray in a process with these variables, whose Ray has its files in
    `ray_files`.
    """
    program = f"""
from pathlib import Path
from tests.sweep.sweeps import run_toy
done = run_toy(Path({str(folder)!r}), resources={{"executor": "gang"}}, name="beside")
print({{record.status.value for record in done.folder.records()}})
"""
    own = {
        "PYTHONPATH": str(ROOT),
        "RAY_TMPDIR": str(ray_files),
        "SWEEP_TRACKING": "none",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, **own, **variables},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "{'done'}\n", done.stderr[-3_000:]


@pytest.fixture
def ray_files():
    """A folder whose path is short enough for Ray's sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.slow  # starts a Ray in a process of its own, as the next one
def test_a_sweep_ignores_another_ray_that_the_environment_names(
    tmp_path, ray_files, silent_port
):
    """And the address file that a killed Ray has left."""
    (ray_files / "ray").mkdir()
    (ray_files / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{silent_port}")
    run_toy_beside(tmp_path, ray_files, **OTHERS)
    assert [path.name for path in ray_files.iterdir()] == ["ray"], "its own is removed"


@pytest.mark.slow  # starts two Rays
@pytest.mark.parametrize("named", [False, True])
def test_a_sweep_leaves_a_ray_that_runs_on_the_machine_alone(
    tmp_path, ray_files, named
):
    start = "import ray.scripts.scripts; ray.scripts.scripts.main()"
    words = ("start", "--head", "--block", "--port=0", "--include-dashboard=false")
    command = [
        sys.executable,
        "-c",
        start,
        *words,
        "--temp-dir",
        str(ray_files / "ray"),
    ]
    other = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        address = ray_files / "ray" / "ray_current_cluster"
        deadline = time.monotonic() + 120
        while not address.exists():
            assert other.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        running = psutil.Process(other.pid).children(recursive=True)
        variables = {"RAY_ADDRESS": address.read_text()} if named else {}
        run_toy_beside(tmp_path, ray_files, **variables)
        assert len(list((ray_files / "ray").glob("session_2*"))) == 1
        assert [path.name for path in ray_files.iterdir()] == ["ray"], (
            "it had a Ray of its own"
        )
        assert all(
            process.is_running() for process in running if "raylet" in process.name()
        )
    finally:
        for process in (*psutil.Process(other.pid).children(recursive=True), other):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        other.wait()


def test_what_threads_of_ray_print_is_not_heard(ended, capsys, monkeypatch):
    """It says in paragraphs what the sweep says in a line; all else is for people, on
    stderr.
    """

    def from_a_thread(name, words):
        thread = threading.Thread(target=print, args=[words], name=name)
        thread.start()
        thread.join()

    died = (
        "(raylet) 2 Workers (tasks / actors) killed due to memory pressure (OOM), ..."
    )
    with ray_session.session(RunSettings()):
        assert not ray_session.took_memory()
        from_a_thread(
            "ray_listen_error_messages", "(raylet) A worker died or was killed"
        )
        assert not ray_session.took_memory()
        from_a_thread("ray_listen_error_messages", died)
        assert ray_session.took_memory()
        assert not ray_session.took_memory(), "it is said once"
        from_a_thread("mine", "a line of another thread")
        print("a line of this one")
    assert capsys.readouterr() == ("", "a line of another thread\na line of this one\n")


def test_the_folder_of_a_ray_is_its_owners_alone_and_ends_with_it(
    ended, ray_files, monkeypatch
):
    """Ray's own folder lets every user of the machine write into it."""
    made = []

    def start(*, _temp_dir, **options):
        folder = Path(_temp_dir)
        (folder / "session_1" / "logs").mkdir(parents=True)
        (folder / "session_1").chmod(0o777)
        made.append((folder, stat.S_IMODE(folder.stat().st_mode)))

    monkeypatch.setattr(ray_session, "_start_local", start)
    monkeypatch.setenv("RAY_TMPDIR", str(ray_files))
    with ray_session.session(RunSettings()):
        assert [folder.parent for folder, _ in made] == [ray_files]
        assert made[0][0].is_dir()
    assert [mode for _, mode in made] == [0o700]
    assert list(ray_files.iterdir()) == []

    def fail(**options):
        raise SweepError("Ray did not start")

    monkeypatch.setattr(ray_session, "_start_local", fail)
    with pytest.raises(SweepError), ray_session.session(RunSettings()):
        pass
    assert list(ray_files.iterdir()) == []


_LOGGED = "[2026-11-28 09:04:25,621 W 7699 7699] gcs_client.cc:210: Failed: InvalidAuthToken: ..."


@pytest.mark.parametrize(
    ("error", "logged", "words"),
    [
        (
            ray.exceptions.AuthenticationError,
            "",
            "refused the token: expected RAY_AUTH_MODE=token",
        ),
        (
            ConnectionError,
            f"{_LOGGED}\n" * 3,
            "refused the token: expected RAY_AUTH_MODE=token",
        ),
        (
            ray.exceptions.RaySystemError,
            "",
            "expected address to be that of a running Ray cluster",
        ),
    ],
)
def test_a_cluster_that_refuses_is_one_line(monkeypatch, capfd, error, logged, words):
    """Ray's libraries write on stderr themselves; what others write there meanwhile is
    kept.
    """

    def init(**options):
        os.write(2, f"{logged}a line of another thread\n".encode())
        raise error(
            "Token authentication is enabled but the token is missing.\n  See Ray's"
            " pages"
        )

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    settings = RunSettings(executor="gang", address="127.0.0.1:6379")
    with refused(words), ray_session.session(settings):
        raise AssertionError("a cluster has accepted this")
    assert capfd.readouterr().err == "a line of another thread\n"


@pytest.mark.parametrize(
    ("name", "folder", "why"),
    [
        ("TMPDIR", "long" * 20, "of at most 107 bytes"),
        ("RAY_TMPDIR", "long" * 20, "of at most 107 bytes"),
        ("TMPDIR", __file__, "that Ray can write to"),
        ("TMPDIR", "/proc/nowhere", "that Ray can write to"),
        ("TMPDIR", "é", "no ASCII"),
    ],
)
def test_a_temporary_folder_that_ray_cannot_use_is_one_line(
    name, folder, why, ray_files, monkeypatch
):
    place = str(ray_files / folder)
    monkeypatch.setenv(name, place)
    with (
        refused(rf"{why}.*{name}='{place}': set RAY_TMPDIR to another"),
        ray_session.session(RunSettings(dashboard=False)),
    ):
        raise AssertionError("Ray has started")
    assert not ray.is_initialized()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",
            "",
            "without RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0",
        ),
        ("RAY_AUTH_MODE", "disabled", "RAY_AUTH_MODE to be token.*got 'disabled'"),
    ],
)
def test_a_ray_without_its_environment_is_refused(name, value, words, monkeypatch):
    """It would listen on every interface, or accept calls without a token."""
    monkeypatch.setenv(name, value)
    with refused(words):
        require_executor(RunSettings())
    require_executor(RunSettings(executor="local"))
