"""Trials on a real Ray: same results as in one process, exact stops, recovery; the
metrics of a running sweep match its files, under the names that panels use. One
cluster.
"""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch

from dashboards.live_metrics import COUNTS, metrics
from search_spaces import space as spaces
from sweep.planning import resources
from sweep.planning.prepare import Prepared
from sweep.planning.resources import share_of, this_machine
from sweep.results.tables.progress import Progress
from sweep.runtime import ray_metrics, ray_session, runner, tune
from sweep.runtime.driver import run_trials
from sweep.runtime.events import GO_ON, PastEpoch, RunSettings, TrialJob, Verdict
from sweep.runtime.ray_metrics import record_metrics
from sweep.store.plans import Plan
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder
from tests.libraries import IGNORED
from tests.refusals import refused
from tests.sweep.ray_metrics import own_ray
from tests.sweep.sweeps import settings_in, write_corpus
from tests.sweep.untracked import run_untracked
from tests.torture.interrupts import processes_with
from trainables.config.trial import parse
from trainables.errors import InvalidInput, SweepError
from trainables.figures import is_public
from trainables.result import EpochReport
from trainables.system import checkpoint

pytestmark = IGNORED
ROOT = Path(__file__).parents[3]
SETTINGS = RunSettings(
    function="tests.sweep.toy_trial:run",
    dashboard=False,
    slots=1,
    workers=2,
    gpus_per_worker=0,
)
ALONE = SETTINGS.model_copy(update={"workers": 1})
LOCAL = SETTINGS.model_copy(update={"executor": "local"})
NUM_GPUS = 8
DEVICES = RunSettings(
    function="tests.sweep.runtime.test_ray_trials:say_where",
    dashboard=False,
    gpus_per_worker=1,
)


@pytest.fixture(scope="module", autouse=True)
def own_folder(tmp_path_factory):
    """Trials keep figures in the folder of their process, unless told otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("here"))
        yield


@pytest.fixture(scope="module")
def cluster():
    """The machine has no GPU: Ray is told of eight, and torch's count of them is a
    stand-in.
    """
    # as a notebook may have done before: the session asks for its token all the same
    import ray

    assert not ray.is_initialized()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "device_count", lambda: NUM_GPUS)
        patch.setenv("PYTHONPATH", str(ROOT))  # for tests.sweep.toy_trial
        patch.setattr(ray_session, "machine_cpus", lambda: NUM_GPUS)
        with own_ray() as started:
            yield started


def make_jobs(folder, *, count=2, epochs=3):
    jobs = []
    for index in range(count):
        place = folder / "trials" / f"t{index}"
        place.mkdir(parents=True)
        training = {
            "epochs": epochs,
            "num_workers": 2,
            "expected_batch_size": 2,
            "seed": index,
        }
        jobs.append(
            TrialJob(
                trial_id=f"t{index}",
                config=parse({"training": training}),
                folder=place,
                point={"training.seed": index},
            )
        )
    return jobs


def driver_of(jobs, place):
    """A process after two epochs of the last job, and the variable that its own ones
    inherit.
    """
    mark = f"SWEEP_TEST_{place.name}"
    fields = [
        {
            "id": j.trial_id,
            "config": j.config.model_dump(mode="json"),
            "folder": str(j.folder),
        }
        for j in jobs
    ]
    driver = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(DRIVER), json.dumps(fields)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT), mark: "1"},
    )
    for line in driver.stdout:
        if line.split() == ["epoch", jobs[-1].trial_id, "2"]:
            break
    return driver, mark


class Diary:
    """Records events; `limits` allows a trial that many epochs."""

    def __init__(self, **limits):
        self.events = []
        self._limits = limits

    def __call__(self, event):
        self.events.append(event)
        limit = self._limits.get(event.trial_id)
        if (
            event.report is not None
            and limit is not None
            and event.report.epochs_done >= limit
        ):
            return Verdict("budget")
        return GO_ON

    def of(self, trial_id, kind):
        return [e for e in self.events if e.trial_id == trial_id and e.kind == kind]

    def ser(self, trial_id):
        (event,) = self.of(trial_id, "finished")
        return event.result.metrics["ser"]


def trained(job):
    return (job.folder / "trained.txt").read_text().splitlines()


def trained_epochs(job):
    return [int(line.split()[0]) for line in trained(job)]


def sequential(folder, *, count, epochs=3):
    diary = Diary()
    run_trials(
        make_jobs(folder, count=count, epochs=epochs), events=diary, settings=LOCAL
    )
    return diary


class Idle:
    def __init__(self, trial, **options):
        """Take what Tune takes."""

    def fit(self):
        """Begin no trial."""


class Waits:
    def __init__(self, pool, **options):
        self._pool = pool

    def fit(self):
        """Ask for one until the pool has none to come."""
        ray = importlib.import_module("ray")
        pool = ray.get_actor(self._pool, namespace=ray_session.NAMESPACE)
        assert ray.get(pool.take.remote(0, "g")) is None


# First in the file: a gang still starts when its pool is gone, and must have ended
# before Ray.
@pytest.mark.parametrize(
    "worker_group", [Waits, pytest.param(tune.worker_group, marks=pytest.mark.slow)]
)
def test_what_tune_does_not_explore_is_not_trained(
    worker_group, cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr(tune.tune, "Tuner", Idle)
    monkeypatch.setattr(tune, "worker_group", worker_group)
    jobs, diary = make_jobs(tmp_path), Diary()
    with refused("Ray Tune ended before every trial had begun", SweepError):
        run_trials(jobs, events=diary, settings=ALONE)
    assert diary.events == []
    assert [list(job.folder.iterdir()) for job in jobs] == [[], []]


def test_a_resumed_sweep_stops_a_trial_by_the_epochs_on_disk(cluster, tmp_path):
    """Alone in its Tune it would be the best of its rung."""
    (job,), diary = make_jobs(tmp_path, count=1), Diary()
    past = [
        PastEpoch(trial_id=f"p{i}", epochs_done=1, metrics={SETTINGS.metric: 0.0})
        for i in range(3)
    ]
    asha = SETTINGS.model_copy(update={"scheduler": "asha", "max_epochs": 100})
    run_trials([job], events=diary, settings=asha, past=past)
    assert trained_epochs(job) == [1]


def test_each_trial_has_as_many_workers_as_it_can_share(cluster, tmp_path):
    """Largest first, the scheduler of the later ones knowing the epochs of all."""
    jobs, diary = make_jobs(tmp_path, count=4, epochs=2), Diary()
    for index, (workers, rate) in enumerate(((1, 1.0), (2, 0.1), (2, 0.1), (1, 0.1))):
        fields = jobs[index].config.model_dump(mode="json")
        fields["training"] |= {"num_workers": workers, "learning_rate": rate}
        jobs[index] = replace(jobs[index], config=parse(fields))
    asha = SETTINGS.model_copy(update={"scheduler": "asha", "max_epochs": 100})
    run_trials(jobs, events=diary, settings=asha)
    sizes = [{int(line.split()[2]) for line in trained(job)} for job in jobs]
    assert sizes == [{1}, {2}, {2}, {1}]
    started = [event.trial_id for event in diary.events if event.kind == "started"]
    assert started == ["t1", "t2", "t0", "t3"]
    assert trained_epochs(jobs[0]) == [1], "stopped, as the worst of three"


def test_a_gang_gives_the_bits_of_one_process_whatever_befell_the_trials_before(
    cluster, tmp_path
):
    """One worker serves trials that end in every way; each is better than all before
    it, whatever the seed, but the last one, which the scheduler stops.
    """
    jobs, worker_group = make_jobs(tmp_path / "gang", count=7), Diary(t2=2, t5=1)
    for index, rate in enumerate((0.1, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1.0)):
        fields = jobs[index].config.model_dump(mode="json")
        fields["training"] |= {"learning_rate": rate, "seed": max(index, 1)}
        jobs[index] = replace(jobs[index], config=parse(fields))
    (jobs[3].folder / "raise").write_text("-1 1")
    alone, alike = Diary(), make_jobs(tmp_path / "alone", count=7)
    alike = [replace(alike[index], config=jobs[index].config) for index in (0, 4)]
    run_trials(alike, events=alone, settings=LOCAL)
    found = {}

    def events(event):
        _note_listeners(found, event)
        return worker_group(event)

    asha = SETTINGS.model_copy(update={"scheduler": "asha", "max_epochs": 100})
    run_trials(jobs, events=events, settings=asha)

    assert worker_group.ser("t0") == alone.ser("t0")
    assert worker_group.ser("t1") == worker_group.ser("t0"), (
        "the same trial, in fresh and in reused workers"
    )
    assert worker_group.ser("t4") == alone.ser("t4")
    reported = [
        event.report.epochs_done
        for event in worker_group.of("t4", "epoch")
        if event.report
    ]
    assert reported == [1, 2, 3]
    where = {line.split(" ", 1)[1] for job in jobs for line in trained(job)}
    (same,) = where  # one worker served every trial, and sees none of the eight GPUs
    assert same.split(" ")[1:] == ["2", "cpu", ""]

    assert trained_epochs(jobs[2]) == [1, 2], "the budget stops at its epoch"
    assert trained_epochs(jobs[5]) == [1]
    assert trained_epochs(jobs[6]) == [1], (
        "the last trial, stopped: nothing waits for ever"
    )
    reasons = {
        name: worker_group.of(name, "finished")[0].reason for name in ("t2", "t4", "t6")
    }
    assert reasons == {
        "t2": "budget",
        "t4": "",
        "t6": "stopped by the scheduler of Ray Tune",
    }
    assert worker_group.of("t2", "finished")[0].result.stopped_early

    (failed,) = worker_group.of("t3", "failed")
    assert failed.reason.startswith("ValueError at toy_trial.py:")
    assert "account" not in failed.reason, "private text stays in the worker"
    assert not (tmp_path / "gang" / ".ray").exists(), "Ray's own files are gone"

    # Nothing listens beyond this machine: Ray's daemons, driver, actors, agents and
    # workers, and what torch.distributed opens between two of them.
    own = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    listening = {name for name, places in found.items() if places & own}
    assert {"gcs_server", "raylet", "ray::RayTrainWorker"} <= listening
    assert {name: places - own for name, places in found.items() if places - own} == {}
    assert os.environ["RAY_AUTH_MODE"] == "token"


def _note_listeners(found, event):
    """Where this process and those below it listen, by their names, while a trial
    trains.
    """
    if event.kind == "epoch" and event.trial_id == "t0":
        for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
            with suppress(psutil.Error):
                sockets = process.net_connections(kind="inet")
                places = {
                    str(s.laddr.ip) for s in sockets if s.status == psutil.CONN_LISTEN
                }
                name = (process.cmdline() or [""])[0].rpartition("/")[2]
                found.setdefault(name.partition(".")[0], set()).update(places)


class KillsItsOwn(Diary):
    """Kills processes of this test's own cluster when an epoch is reported, once."""

    def __init__(self, *names):
        super().__init__()
        self._names = names
        self.killed = 0

    def __call__(self, event):
        if (
            event.report is not None
            and event.report.epochs_done == 2
            and not self.killed
        ):
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):  # others come and go
                    if process.cmdline()[0].startswith(self._names):
                        process.kill()
                        self.killed += 1
        return super().__call__(event)


def test_ray_prints_what_its_daemons_say_in_the_threads_that_are_not_heard(cluster):
    """A thread of another name would reach the terminal."""
    named = {thread.name for thread in threading.enumerate()}
    assert "ray_listen_error_messages" in named


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "attempts"),
    [(("ray::RayTrainWorker",), [1, 2]), (("ray::lease", "ray::ImplicitFunc"), [1])],
)
def test_a_killed_worker_or_tune_trial_costs_no_acknowledged_epoch(
    cluster, tmp_path, names, attempts, capfd
):
    """And what Ray says of it in a paragraph is not printed."""
    alone = sequential(tmp_path / "alone", count=2, epochs=4)
    jobs, diary = make_jobs(tmp_path / "gang", count=2, epochs=4), KillsItsOwn(*names)
    run_trials(jobs, events=diary, settings=SETTINGS)
    assert diary.killed
    out, errors = capfd.readouterr()
    assert "raylet" not in out + errors
    assert "worker died" not in out + errors
    assert [event.attempt for event in diary.of("t0", "started")] == attempts
    assert trained_epochs(jobs[0]) == [1, 2, 3, 4]
    assert (diary.ser("t0"), diary.ser("t1")) == (alone.ser("t0"), alone.ser("t1"))


@pytest.mark.slow
def test_a_killed_pool_is_one_line_and_the_rest_can_be_resumed(
    cluster, tmp_path, capfd
):
    alone = sequential(tmp_path / "alone", count=2, epochs=4)
    jobs, diary = (
        make_jobs(tmp_path / "gang", count=2, epochs=4),
        KillsItsOwn("ray::Pool"),
    )
    capfd.readouterr()
    with pytest.raises(SweepError) as problem:
        run_trials(jobs, events=diary, settings=SETTINGS)
    assert (diary.killed, str(problem.value)) == (
        1,
        "Ray failed (its process that hands out the trials died)",
    )
    out, errors = capfd.readouterr()
    assert (out, "Traceback" in errors) == ("", False)
    assert not (tmp_path / "gang" / ".ray").exists()
    again = Diary()
    run_trials(jobs, events=again, settings=SETTINGS)
    assert trained_epochs(jobs[0])[:2] == [1, 2]
    assert (again.ser("t0"), again.ser("t1")) == (alone.ser("t0"), alone.ser("t1"))


@pytest.mark.slow
@pytest.mark.parametrize("daemon", ["raylet", "gcs_server"])
def test_a_killed_daemon_of_ray_is_one_line_and_leaves_no_process(daemon, tmp_path):
    (job,) = make_jobs(tmp_path, count=1, epochs=50)
    (job.folder / "slow").write_text("0.3")
    driver, mark = driver_of([job], tmp_path)
    (hurt,) = [p for p in psutil.Process(driver.pid).children() if p.name() == daemon]
    hurt.kill()
    _, errors = driver.communicate(timeout=60)
    assert f"Ray failed (its {daemon} died)" in errors.splitlines()[-1]
    assert "Last 20 lines" not in errors
    assert driver.returncode == 1
    assert none_left(mark, seconds=120) == []
    run_trials([job], events=Diary(t0=4), settings=LOCAL)
    assert trained_epochs(job)[:2] == [1, 2]


@pytest.mark.slow
def test_workers_in_a_cluster_that_lives_on_end_with_an_interrupted_sweep(
    cluster, tmp_path
):
    (job,) = make_jobs(tmp_path, count=1, epochs=50)
    (job.folder / "slow").write_text("0.2")

    class Failing(Diary):
        def __call__(self, event):
            if event.report is not None and event.report.epochs_done == 2:
                raise OSError("disk full")
            return super().__call__(event)

    with pytest.raises(OSError, match="disk full"):
        run_trials([job], events=Failing(), settings=ALONE)
    pid = int(trained(job)[0].split()[1])
    deadline = time.monotonic() + 30
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not psutil.pid_exists(pid)
    assert len(trained_epochs(job)) < 10


def say_where(config, *, folder, comm, report, **_):
    """A trial function: report an epoch, write this worker's device and the GPUs that
    it sees, wait for both trials to do so, and fail.
    """
    report(EpochReport(epochs_done=1, seconds=0.0, metrics={}))
    seen, ray = os.environ.get("CUDA_VISIBLE_DEVICES"), importlib.import_module("ray")
    given = (
        ray.get_gpu_ids() if ray.is_initialized() else []
    )  # else it would start a Ray
    (folder / "where").write_text(f"{comm.device} {seen} {given}")
    deadline = time.monotonic() + 600
    while len(list(folder.parent.glob("*/where"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    raise InvalidInput("said")


def with_memory(patch, **sizes):
    size = replace(ray_session.cluster_size(), memory_bytes=sizes["memory"], cpus=2)
    patch.setattr(ray_session, "cluster_size", lambda: size)
    patch.setattr(resources, "_UNKNOWN", sizes["unknown"])


@pytest.mark.slow  # two gangs
def test_a_second_slot_with_its_own_gpu_begins_once_the_first_says_that_memory_is_left(
    cluster, tmp_path, monkeypatch
):
    with_memory(monkeypatch, memory=4 * 2**30, unknown=4 * 2**30)
    jobs, diary = make_jobs(tmp_path), Diary()
    run_trials(jobs, events=diary, settings=DEVICES)
    reasons = [event.reason for event in diary.events if event.kind == "failed"]
    assert reasons == ["InvalidInput: said"] * 2
    found = [(job.folder / "where").read_text() for job in jobs]
    numbers = {text.split()[1] for text in found}
    assert len(numbers) == 2
    assert set(found) == {f"cuda:0 {number} [{number}]" for number in numbers}
    assert [event.kind for event in diary.events[:3]] == ["started", "epoch", "started"]
    assert 50 * 2**20 < diary.events[1].memory < 2 * 2**30


@pytest.mark.parametrize(("asked", "share"), [(None, 1), (0, 0), (0.5, 0.5), (2, 2)])
def test_the_default_is_one_where_there_are_gpus(cluster, tmp_path, asked, share):
    """Of a cluster it is not known before Ray is connected."""
    space = spaces.parse(
        {"name": "s", "resources": {"gpus_per_worker": asked, "workers": 1}}
    )
    given = (
        Prepared(space=space, plan=Plan(name="s", trials=()), notes=()),
        settings_in(tmp_path),
    )
    planned = runner.run_settings(*given, address=None, function="none")
    here = share_of(space.resources, this_machine(space.resources), given[0].plan)
    assert here.gpus_per_worker == planned.gpus_per_worker == share
    assert share_of(space.resources, None, given[0].plan).gpus_per_worker == asked


@pytest.mark.slow
def test_trials_wait_for_each_other_once_the_first_one_says_that_memory_is_short(
    cluster, tmp_path, monkeypatch
):
    with_memory(monkeypatch, memory=50 * 2**20, unknown=1)
    jobs, diary = make_jobs(tmp_path, count=5), Diary()
    run_trials(jobs, events=diary, settings=ALONE.model_copy(update={"slots": None}))
    assert {job.trial_id for job in jobs if diary.of(job.trial_id, "finished")} == {
        job.trial_id for job in jobs
    }
    ends = [
        event.kind for event in diary.events if event.kind in ("started", "finished")
    ]
    assert ends[-5:] == ["finished", *["started", "finished"] * 2]


@pytest.mark.parametrize(
    ("change", "named"),
    [({"cpus_per_worker": 9}, "worker=9"), ({"slots": 5, "workers": 2}, "slots=5")],
)
def test_too_few_resources_are_refused_once_the_cluster_is_known(
    cluster, change, named, tmp_path
):
    diary = Diary()
    with refused(named):
        run_trials(
            make_jobs(tmp_path),
            events=diary,
            settings=SETTINGS.model_copy(update=change),
        )
    assert diary.events == []


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return run_untracked(tmp_path_factory.mktemp("toy"))


def values_after(cluster, toy, status="done"):
    """What Ray serves once the trials are recorded."""
    record_trial = record_metrics(lambda trial_id, progress: None, toy)
    status = TrialStatus(status)

    def record():
        for each in toy.records():
            progress = Progress(
                name="a", status=status, epochs_done=3, epochs=3, plan=each.plan
            )
            record_trial(each.plan.id, progress)

    return cluster.recorded(toy.name, record)


def test_every_trial_has_its_last_epochs_figures(cluster, toy):
    values = values_after(cluster, toy)
    for record in toy.records():
        labels = (toy.name, record.plan.id, record.plan.name, record.plan.engine)
        row = toy.epochs(record.plan.id)[-1]
        assert (
            values["sweep_validation_ser"][labels] == row["metrics"]["validation_ser"]
        )
        assert values["sweep_ser"][labels] == record.metrics["ser"]
        assert values["sweep_epochs_done"][labels] == 3
        assert (labels in values["sweep_epsilon_spent"]) == (
            record.plan.engine != "sgd"
        )
    assert values["sweep_trials"][toy.name, "done"] == 3
    assert values["sweep_trials"][toy.name, "running"] == 0


def test_a_trial_that_has_not_begun_has_no_figures(cluster, toy, tmp_path):
    planned = SweepFolder(shutil.copytree(toy.path, tmp_path / "planned"))
    assert set(values_after(cluster, planned, status="planned")) == {"sweep_trials"}


def test_names_and_helps_of_any_script_are_in_ascii(cluster, tmp_path, monkeypatch):
    """The help as that of a figure which a user has added."""
    odd = {
        source: replace(each, help=f"{each.help}, ≤ 1 é")
        for source, each in metrics().items()
    }
    monkeypatch.setattr(ray_metrics, "metrics", lambda: odd)
    axes = {"privacy.max_grad_norm": [1.0]}
    name = 'ε≤8 naïve 测\u8bd5 "a\\b" {c="d"} 🙂'
    toy = run_untracked(tmp_path, name="any", variants=[{"name": name, "axes": axes}])
    [(_, _, found, _)] = values_after(cluster, toy)["sweep_epochs_done"]
    assert found == r'epsilon<=8 na\xefve \u6d4b\u8bd5 "a\\b" {c="d"} \U0001f642, C=1'


@pytest.mark.parametrize("is_counted", [False, True])
def test_no_public_metric_reveals_a_counted_number_of_records(
    cluster, tmp_path, is_counted
):
    """Seconds of an epoch times utterances a second is the number of training
    records.
    """
    data = write_corpus(tmp_path) | ({"num_records": None} if is_counted else {})
    toy = run_untracked(
        tmp_path, name=f"counted-{is_counted}".lower(), base={"data": data}
    )
    plan = toy.plan().trials[1]
    report = EpochReport(
        epochs_done=4, seconds=2.0, metrics={"epsilon_paper_spent": 3.0}
    )
    toy.add_epoch(plan.id, report, when=0.0)
    values = values_after(cluster, toy)
    assert plan.num_records
    assert "sweep_epoch_seconds" in values
    hidden = {"sweep_utterances_per_second", "sweep_epsilon_paper_spent"}
    assert hidden & values.keys() == (set() if is_counted else hidden)
    if not is_counted:
        labels = (toy.name, plan.id, plan.name, plan.engine)
        assert values["sweep_utterances_per_second"][labels] == plan.num_records / 2.0


def test_metrics_that_no_epsilon_covers_are_called_so():
    for source, metric in metrics().items():
        is_open = source == COUNTS or is_public(source)
        assert metric.name.startswith("curator_") != is_open, metric.name
        assert ("curator" in metric.help) != is_open


def test_without_ray_nothing_is_recorded_and_ray_is_not_imported(toy, monkeypatch):
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    heard = []
    watch = record_metrics(lambda trial_id, progress: heard.append(trial_id), toy)
    watch(
        toy.plan().trials[0].id,
        Progress(name="a", status=TrialStatus.RUNNING, epochs_done=1, epochs=3),
    )
    assert len(heard) == 1
    assert "ray" not in sys.modules


DRIVER = """
    import json, sys
    from pathlib import Path
    from sweep import interrupts
    from sweep.runtime.events import RunSettings, TrialJob
    from sweep.runtime.events import Verdict
    from sweep.runtime.driver import run_trials
    from trainables.config.trial import parse
    jobs = [
        TrialJob(trial_id=f["id"], config=parse(f["config"]), folder=Path(f["folder"]))
        for f in json.loads(sys.argv[1])
    ]
    def events(event):
        done = event.report and event.report.epochs_done
        # Ray's own words go to stderr, with all that is printed meanwhile.
        print(event.kind, event.trial_id, done, file=sys.__stdout__, flush=True)
        return Verdict()
    settings = RunSettings(function="tests.sweep.toy_trial:run", dashboard=False, workers=2)
    sys.exit(interrupts.run(lambda: run_trials(jobs, events=events, settings=settings) or 0))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_driver_leaves_no_process_and_the_rest_can_be_resumed(
    number, tmp_path
):
    jobs = make_jobs(tmp_path, count=2, epochs=6)
    (jobs[1].folder / "slow").write_text("1")
    driver, mark = driver_of(jobs, tmp_path)
    driver.send_signal(number)
    rest, errors = driver.communicate(timeout=60)
    assert driver.returncode != 0
    if number != signal.SIGKILL:
        assert "interrupted: " in errors
    if number == signal.SIGKILL:
        assert none_left(mark, seconds=30, but=RAY_AGENTS) == []
    # After kill -9 Ray's agents look for their dead cluster for about a minute before
    # they end.
    assert none_left(mark, seconds=120 if number == signal.SIGKILL else 30) == []
    reported = [
        2,
        *(int(line.split()[2]) for line in rest.splitlines() if "epoch t1" in line),
    ]
    saved = checkpoint.state_of(jobs[1].folder)["epoch"]
    assert saved >= max(reported)
    before = trained_epochs(jobs[1])
    assert before in (list(range(1, saved + 1)), list(range(1, saved + 2))), (
        "one was cut at most"
    )
    diary = Diary()
    run_trials(jobs[1:], events=diary, settings=LOCAL)
    assert trained_epochs(jobs[1]) == [*before, *range(saved + 1, 7)], (
        "no saved one once more"
    )
    assert diary.ser("t1") == sequential(tmp_path / "alone", count=2, epochs=6).ser(
        "t1"
    )


RAY_AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")


def none_left(variable, *, seconds, but=()):
    """What is still alive after `seconds`; empty as soon as nothing is. `but` is not
    counted.
    """
    deadline = time.monotonic() + seconds
    while True:
        left = [name for name in processes_with(variable) if not name.startswith(but)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.5)
