"""Starts and ends Ray for one sweep: quiet, without telemetry, with this project's
packages.
"""

import atexit
import io
import logging
import math
import os
import re
import shutil
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any

from sweep import interrupts
from sweep.planning.resources import Machine, machine_cpus, machine_gpus
from sweep.runtime.events import RunSettings
from trainables.errors import InvalidInput, SweepError, one_line, system_words, words_of
from trainables.io import disk
from trainables.io.files import make_folder
from trainables.system import processes

NAMESPACE = "dp-nlu-sweep"
_PACKAGES = Path(__file__).parents[2]  # the folder of what workers import
_STARTS = 3
_REMOVALS = 5  # tries to remove a folder
_ANSWER_SECONDS = 120.0  # of a node
# In what Ray prints of workers that it has killed.
_OUT_OF_MEMORY = "due to memory pressure"
# In what Ray's libraries log of a token that is refused.
_NO_TOKEN = b"InvalidAuthToken"
_LOG_LINE = re.compile(rb"\[\d{4}-\d\d-\d\d [\d:,]+ [A-Z] \d+ \d+\][^\n]*\n")
_memory = threading.Event()  # Ray has said that
_callers: list[threading.Thread] = []  # threads of this process that call Ray
_daemons: dict[str, Any] = {}  # psutil's processes of the local cluster, by name
files: list[Path] = []  # the folder of a session of our own, which is removed with it
_OBJECT_STORE_BYTES = 100_000_000  # configs and metrics pass through it, no data

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # What it prints comes from its own threads, which are not heard, and not at its
    # shutdown.
    "RAY_DEDUP_LOGS": "0",
    # How soon the death of a worker is noticed.
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    # A busy machine starts a group of workers in more than the default of a minute.
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "600",
    # A worker without a GPU sees none.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    # Tune saves its own state for `Tuner.restore`, which is not used: the sweep's
    # folder has more.
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    # Its SIGTERM handler prints a stack and ends the process before ours is called.
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",
}
_REQUIRED = {
    "RAY_TRAIN_V2_ENABLED": "1",
    # A late call must not start another cluster.
    "RAY_ENABLE_AUTO_CONNECT": "0",
}
# Of another Ray, or of a job on it: a cluster of our own would start with them, or not
# at all.
_OF_ANOTHER_RAY = (
    "RAY_ADDRESS",
    "RAY_REDIS_ADDRESS",
    "RAY_CLIENT_MODE",
    "RAY_USE_TLS",
    "RAY_RUNTIME_ENV_HOOK",
    "RAY_JOB_CONFIG_JSON_ENV_VAR",
    "RAY_OVERRIDE_RESOURCES",
    "RAY_OVERRIDE_LABELS",
)
# A cluster of this machine is private to its owner: ports on loopback, calls with a
# token.
LOOPBACK = "127.0.0.1"
_LOCAL_ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    # Ray uses loopback as its address where it can have no other nodes.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "GLOO_SOCKET_IFNAME": "lo",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # it would go with us
}
_READ_AT_IMPORT = ("RAY_AUTH_MODE", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")


@contextmanager
def session(settings: RunSettings) -> Iterator[None]:
    """Ray for the time of the block: the cluster at `settings.address`, one that runs
    in this process already (it is left as it is), or a local one that ends with the
    block.

    Raises: InvalidInput if the address does not answer; SweepError if the Ray of this
    process has failed before.
    """
    set_environment(settings)

    import ray  # after the environment: Ray reads it when imported

    if ray.is_initialized():
        if dead_daemon() is not None:
            raise SweepError("Ray in this process has failed: start a new process")
        with redirect_stdout(_WithoutRay()):
            yield
        return
    logging.getLogger("ray").setLevel(logging.CRITICAL)  # what it logs, it raises, too
    if settings.address is not None:
        packages = [
            str(_PACKAGES / name) for name in ("sweep", "trainables", "search_spaces")
        ]
        try:
            with _unheard() as said:
                ray.init(
                    address=settings.address,
                    namespace=NAMESPACE,
                    log_to_driver=False,
                    logging_level=logging.CRITICAL,
                    runtime_env={"py_modules": packages},
                )
        except (
            ConnectionError,
            ValueError,
            RuntimeError,
            ray.exceptions.RayError,
        ) as error:
            # Of a wrong token the error says nothing, of a missing one a page.
            is_token = isinstance(error, ray.exceptions.AuthenticationError)
            if is_token or any(_NO_TOKEN in words for words in said):
                raise InvalidInput(
                    f"the Ray cluster at address={settings.address!r} refused the"
                    " token: expected RAY_AUTH_MODE=token and the cluster's own in"
                    " RAY_AUTH_TOKEN, or its file in RAY_AUTH_TOKEN_PATH (`ray"
                    " get-auth-token` prints it on the cluster's head)"
                ) from None
            raise InvalidInput(
                "expected address to be that of a running Ray cluster, got"
                f" {settings.address!r} ({one_line(words_of(error), characters=300)})"
            ) from None
    else:
        _start_own(settings)
    interrupts.reinstall()  # where Ray has replaced it by another way
    code = 0
    with redirect_stdout(_WithoutRay()):
        try:
            yield
        except BaseException as error:
            code = 2 if isinstance(error, InvalidInput) else 1
            raise
        finally:
            try:
                _end(ray, code=code, is_own=settings.address is None)
            finally:
                remove(files)


class _WithoutRay(io.TextIOBase):
    """What stdout is while Ray runs: stderr, because stdout is for JSON, without what
    threads of Ray print, which is what its daemons say of dead processes, with the last
    lines of their logs.
    """

    def write(self, text: str) -> int:
        """Write on stderr what is not Ray's."""
        if threading.current_thread().name.startswith("ray_"):
            if _OUT_OF_MEMORY in text:
                _memory.set()
        elif sys.stderr is not None:  # closed by the caller
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush stderr."""
        if sys.stderr is not None:
            sys.stderr.flush()


@contextmanager
def _unheard() -> Iterator[list[bytes]]:
    """Keep from stderr what Ray's libraries write there themselves, such as a line a
    second while a token is refused; it is in the list that this yields once the block
    has ended. The rest follows.
    """
    found: list[bytes] = []
    try:
        screen = os.dup(2)
    except OSError:  # closed by the caller
        yield found
        return
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield found
        finally:
            os.dup2(screen, 2)
            os.close(screen)
            said.seek(0)
            written = said.read()
            found += _LOG_LINE.findall(written)
            with suppress(OSError):
                os.write(2, _LOG_LINE.sub(b"", written))


def took_memory() -> bool:
    """Whether Ray has ended workers since the last call because the memory ran out."""
    found = _memory.is_set()
    _memory.clear()
    return found


def remove(folders: Iterable[str | Path]) -> None:
    """Remove what a session has left, also what a process that is about to end adds
    meanwhile.
    """
    for folder in folders:
        for _ in range(_REMOVALS):
            if os.path.exists(folder):
                shutil.rmtree(folder, ignore_errors=True)


def set_environment(settings: RunSettings) -> None:
    """Set what Ray reads from the environment when imported. Raises: as
    `require_token`.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ.update(_REQUIRED)
    if settings.address is None:
        require_token()
        os.environ.update(_LOCAL_ENVIRONMENT)
        for name in _OF_ANOTHER_RAY:
            os.environ.pop(name, None)
        if not Path(os.environ.get("RAY_AUTH_TOKEN_PATH", "")).is_file():
            os.environ.pop("RAY_AUTH_TOKEN_PATH", None)  # Ray makes a token of its own


def caller(target: Callable[..., object], *args: Any) -> threading.Thread:
    """A thread, not started yet, whose `target` calls Ray: while it lives, Ray is not
    shut down.
    """
    thread = threading.Thread(target=target, args=args, daemon=True)
    _callers.append(thread)
    return thread


def _end(ray: Any, *, code: int, is_own: bool) -> None:
    """Shut Ray down, or leave it to the end of this process, which ends with `code`
    then. Daemons of a cluster that is not our own may be children of this process and
    stay.
    """
    if interrupts.now.number:
        # What is left of it ends with this process; threads of Tune and Train that ask
        # a Ray which was shut down would end it before.
        return
    if dead_daemon() is None:
        _callers[:] = [thread for thread in _callers if thread.is_alive()]
        if not _callers:
            # Agents of a raylet that Ray has killed would look for their cluster for a
            # minute.
            started = _daemon_processes() if is_own else []
            _daemons.clear()
            try:
                ray.shutdown()
            # an interrupt may come when the raylet has ended and its workers have not
            finally:
                processes.kill([*started, *(_daemon_processes() if is_own else [])])
            return
    # Threads of Tune and Train still ask Ray, which ends the process at the first call
    # after a shutdown, before the failure is reported. The workers have gone with their
    # raylet or pool.
    # Ray's asks its GCS, and waits a minute for a dead one.
    sys.excepthook = sys.__excepthook__
    atexit.register(partial(_leave, code, is_own=is_own))


def _leave(code: int, *, is_own: bool) -> None:
    """End this process at its exit: Ray and Tune would first wait a minute for a daemon
    that is gone, or their threads crash on what the interpreter has taken down.
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed by the caller
        with suppress(OSError, ValueError):
            stream.flush()
    if is_own:
        processes.kill(_daemon_processes())  # as after a shutdown
        remove(files)
    os._exit(code)


def _daemon_processes() -> list[Any]:
    """What the daemons of the local cluster have started, the dashboard's processes
    included.
    """
    return processes.descendants({*_daemons.values(), *_daemons_here()})


def _daemons_here() -> list[Any]:
    import ray

    return processes.children(command=str(Path(ray.__file__).parent))


def _start_own(settings: RunSettings) -> None:
    """Start a cluster of our own, whose files and sockets are in a folder that nobody
    else can open: Ray lets everybody write into its own. What it logs counts calls, and
    so trials.
    """
    folder = _make_folder()
    files[:] = [folder]
    before = os.environ.get("PYTHONPATH")
    # Workers inherit it: they must import this `sweep`, not another package of the same
    # name.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_PACKAGES), before)))
    try:
        _start_local(
            # Whatever the address file of another Ray says: a cluster of our own.
            address="local",
            num_cpus=machine_cpus(),
            num_gpus=machine_gpus(),
            namespace=NAMESPACE,
            # None: it may fail to start, which affects nothing else.
            include_dashboard=None if settings.dashboard else False,
            _node_ip_address=LOOPBACK,
            _temp_dir=str(folder),
            object_store_memory=_OBJECT_STORE_BYTES,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
        )
    except BaseException:
        remove(files)
        raise
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before
    _daemons.clear()
    for each in _daemons_here():
        if processes.is_alive(each) and each.name() in ("raylet", "gcs_server"):
            _daemons[each.name()] = each


def _make_folder() -> Path:
    """A new folder of this user alone, with a short path. Raises: InvalidInput where
    none can be made.
    """
    name = _temporary()
    place = Path(os.environ.get(name) or "/tmp")
    if not str(place).isascii():  # Ray would find out after seconds
        raise _no_place("no ASCII")
    try:
        make_folder(place)
        return Path(tempfile.mkdtemp(prefix="ray-", dir=place))
    except OSError as error:
        if disk.failure_of(error, place) is not None:
            raise
        raise _no_place(system_words(error)) from None


def _start_local(**options: Any) -> None:
    """`ray.init` of a local cluster, once more where a node was not up within Ray's 30
    seconds: the next start of a busy machine finds the files in memory.

    Raises: InvalidInput where its temporary folder cannot be used; SweepError where it
    does not start at all.
    """
    import ray

    for left in reversed(range(_STARTS)):
        try:
            ray.init(**options)
            return
        except Exception as error:
            ray.shutdown()
            # It does not know of a node that was not up; its daemons would burden the
            # next one.
            failed = _daemons_here()
            processes.kill([*processes.descendants(failed), *failed])
            if (
                isinstance(error, OSError)
                and disk.failure_of(error, Path.cwd()) is None
            ):
                why = error.strerror or one_line(words_of(error), characters=300)
                raise _no_place(why) from None
            if "timed out during startup" not in str(error):
                raise
            if not left:
                raise SweepError(
                    f"Ray did not start in {_STARTS} tries of 30 seconds: the machine"
                    f" is too busy"
                ) from None
    raise AssertionError("the last try returns or raises")


def _no_place(why: str) -> InvalidInput:
    """Ray cannot keep its files and sockets in the temporary folder."""
    name = _temporary()
    return InvalidInput(
        "expected a temporary folder that Ray can write to, with a path in ASCII and"
        f" sockets in it of at most 107 bytes ({why}), got"
        f" {name}={os.environ.get(name)!r}: set RAY_TMPDIR to another one, such as /tmp"
    )


def _temporary() -> str:
    """The variable that names Ray's temporary folder."""
    return "RAY_TMPDIR" if "RAY_TMPDIR" in os.environ else "TMPDIR"


def dead_daemon() -> str | None:
    """The name of a daemon of a local cluster of this process that has died. Ray itself
    would end the process within a minute, without a message of ours.
    """
    return next(
        (name for name, each in _daemons.items() if not processes.is_alive(each)), None
    )


def require_token() -> None:
    """Raises: InvalidInput where a Ray of our own would ask for no token, because
    authentication is disabled on this machine or Ray has read its environment already.
    """
    mode = os.environ.get("RAY_AUTH_MODE", "token")
    if mode.lower() != "token":
        raise InvalidInput(
            "expected RAY_AUTH_MODE to be token or unset for a local Ray (any user of"
            f" this machine could run code as you), got {mode!r}"
        )
    missing = [n for n in _READ_AT_IMPORT if os.environ.get(n) != _LOCAL_ENVIRONMENT[n]]
    if "ray" in sys.modules and missing:
        wanted = " ".join(f"{name}={_LOCAL_ENVIRONMENT[name]}" for name in missing)
        raise InvalidInput(
            "expected Ray to be imported by the sweep, or with its environment for a"
            f" private Ray, got an imported Ray without {wanted}"
        )


def cluster_size() -> Machine:
    """The cluster that this process is connected to."""
    import ray

    found = ray.cluster_resources()
    return Machine(
        cpus=found.get("CPU", 0),
        gpus=found.get("GPU", 0),
        memory_bytes=found.get("memory") or math.inf,
    )


def require_shared(writes: Sequence[Path], *, reads: Path) -> None:
    """Check that every node of the cluster sees the same folders as this process. In
    each of `writes` a mark is made and looked for; of `reads`, which may be read only,
    the names in it.

    Raises: InvalidInput naming the first folder and node where it does not, or a node
    that has not answered in time.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    marks = [folder / f".shared-{uuid.uuid4().hex}" for folder in writes]
    try:
        for mark in marks:
            make_folder(mark.parent)
            mark.touch()
        wanted, asked = [*marks, *reads.glob("*")], {}
        for node in ray.nodes():
            if node["Alive"]:
                # By its id: several nodes may have one address.
                here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                call = ray.remote(_unseen).options(num_cpus=0, scheduling_strategy=here)
                name = f"node {node['NodeID'][:8]} ({node['NodeManagerAddress']})"
                asked[name] = call.remote(wanted)
        for name, answer in asked.items():
            try:
                unseen = ray.get(answer, timeout=_ANSWER_SECONDS)
            except ray.exceptions.RayError as error:
                raise InvalidInput(
                    "expected every node of the cluster to answer within"
                    f" {_ANSWER_SECONDS:g} seconds, got {type(error).__name__} from"
                    f" {name}"
                ) from None
            if unseen is not None:
                raise InvalidInput(
                    f"expected {unseen.parent} to be on storage that every node shares:"
                    f" {name} sees other content"
                )
    finally:
        for mark in marks:
            mark.unlink(missing_ok=True)


def _unseen(wanted: Sequence[Path]) -> Path | None:
    """The first path that is not there; runs on a node of the cluster."""
    return next((path for path in wanted if not os.path.lexists(path)), None)
