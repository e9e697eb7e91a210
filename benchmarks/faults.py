"""What faults cost: small sweeps are killed again and again, and must lose nothing.

    python benchmarks/faults.py [--kinds plain asha tpe total selection mlflow] [--on
    gang local power]

Each sweep runs as `sweep run` does. A victim is killed with signal 9, three times of
ten within eight seconds of the start and otherwise right after the next epoch that
reaches the disk: a worker or a Tune trial, without which the sweep goes on; Ray's pool,
raylet or GCS, or the driver, after which `sweep resume` goes on. One sweep of each
executor has an MLflow server that is killed. `--on power` (root alone) has the home on
a disk of its own, which loses what was not flushed when the driver of a local sweep is
killed, as when the power fails. Printed: a row for each sweep, with the
epochs that were on disk before a kill and are not, or are others, in the end ("lost"),
those that were trained and not charged ("unpaid"), those charged again, and whether its
results are those of a sweep that was left alone, to the bit. Exit code 1 where anything
is lost, unpaid, different or not ended.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from sweep.spending.ledger import FILE, Ledger
from sweep.store import manifest
from sweep.store.sweeps import SweepFolder, Vault

EPOCHS = 8
NAME = "hurt"
PATIENCE = 900.0  # seconds without an epoch, on a machine that does much else
GOES_ON = {"worker": "ray::RayTrainWorker", "Tune trial": "ray::"}
ENDS = {"pool": "ray::Pool", "raylet": "raylet", "GCS": "gcs_server", "driver": ""}
EXECUTORS = {"gang": "gang", "local": "local", "power": "local"}
MEGABYTES = 256  # of the disk whose power is cut
EXT4_SHUTDOWN, WITHOUT_FLUSH = 0x8004587D, 2  # linux/ext4.h
TUNE_TRIALS = ("ray::ImplicitFunc", "ray::lease")
Z0, C = "privacy.noise_multiplier", "privacy.max_grad_norm"
GRID = {Z0: [0.5, 1.0], C: [0.5, 1.0]}
SEARCH = {
    "strategy": "tpe",
    "num_samples": 4,
    "objectives": ["validation_ser", "epsilon"],
}
RANGES = {C: {"range": {"low": 0.1, "high": 1.0}}}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"axes": GRID},
    # It asks Tune after each epoch, and stops no trial before the last one.
    "asha": {"axes": GRID, "search": {"scheduler": "asha", "grace_epochs": EPOCHS}},
    "tpe": {"axes": RANGES, "search": SEARCH},
    "total": {"axes": GRID, "budget": {"total": 1e6}},
    "selection": {
        "axes": {C: [0.25, 0.5, 0.75, 1.0]},
        "search": {
            "strategy": "private_selection",
            "num_trials": {"law": "poisson", "mean": 4},
        },
    },
}


# Noise that is the same in each run has no finite epsilon.
REPRODUCIBLE = ("plain", "asha", "tpe")


def document(kind: str, executor: str) -> dict[str, Any]:
    """A space of some four trials, one at a time."""
    base = {
        "data": {"name": "communication", "num_utterances": 1_000, "max_records": 400},
        "model": {
            "name": "clc",
            "word_vectors": "hashed",
            "hidden_size": 8,
            "num_layers": 1,
        },
        "engine": "dp_sgd",
        "privacy": {"reproducible_noise": kind in REPRODUCIBLE},
        "training": {"epochs": EPOCHS, "expected_batch_size": 32, "num_workers": 1},
        "evaluation": {"attacks": [], "bootstrap_samples": 0},
    }
    resources = {"executor": executor, "workers": 1, "slots": 1}
    return {"name": NAME, "base": base, "resources": resources, **KINDS[kind]}


Rows = dict[tuple[str, int], dict[str, Any]]


@dataclass
class Disk:
    """An ext4 file system in a file, mounted at a folder."""

    place: Path

    @property
    def _image(self) -> Path:
        return self.place.with_suffix(".img")

    def make(self) -> None:
        """Make the file system, and mount it."""
        self.place.mkdir(parents=True)
        with self._image.open("wb") as file:
            file.truncate(MEGABYTES << 20)
        subprocess.run(["mkfs.ext4", "-q", str(self._image)], check=True)
        self._mount()

    def cut_power(self) -> None:
        """Shut it down; what was written and not flushed never reaches it."""
        descriptor = os.open(self.place, os.O_RDONLY)
        try:
            how = WITHOUT_FLUSH.to_bytes(4, sys.byteorder)
            fcntl.ioctl(descriptor, EXT4_SHUTDOWN, how)
        finally:
            os.close(descriptor)

    def start_again(self) -> None:
        """Mount it once more, as after the power has come back."""
        self.remove()
        self._mount()

    def remove(self) -> None:
        """Unmount it."""
        subprocess.run(["umount", str(self.place)], check=True)

    def _mount(self) -> None:
        command = ["mount", "-o", "loop", str(self._image), str(self.place)]
        subprocess.run(command, check=True)


@dataclass
class Hurt:
    """A sweep in a folder of its own."""

    place: Path
    space: dict[str, Any]
    options: Sequence[str] = ()
    draw: random.Random = field(default_factory=random.Random)
    disk: Disk | None = None
    known: Rows = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    pauses: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """The home of this sweep alone."""
        return self.disk.place / "home" if self.disk else self.place / "home"

    @property
    def trained(self) -> SweepFolder:
        """Where its trials are: of a private selection in the vault."""
        folder = SweepFolder(self.home / NAME)
        return (
            Vault(folder).draws
            if "selection" in str(self.space.get("search"))
            else folder
        )

    def rows(self) -> Rows:
        """Epochs on disk."""
        folder = self.trained
        if not folder.exists:
            return {}
        known = [
            (t.id, row) for t in folder.plan().trials for row in folder.epochs(t.id)
        ]
        return {(i, row["epochs_done"]): _figures(row["metrics"]) for i, row in known}

    def results(self) -> list[dict[str, Any]]:
        """What its trials measured, by their points."""
        folder = self.trained
        found = [
            (str(r.plan.values), r.status, _figures(r.metrics))
            for r in folder.records()
        ]
        return [
            {"point": p, "status": str(s), **figures}
            for p, s, figures in sorted(found, key=str)
        ]

    def start(self) -> subprocess.Popen[str]:
        """`sweep run`, or `sweep resume` where there is something to resume."""
        self.place.mkdir(exist_ok=True)
        path = self.place / "space.yaml"
        path.write_text(yaml.safe_dump(self.space))
        begun = SweepFolder(self.home / NAME).exists
        words = ["resume", NAME] if begun else ["run", str(path)]
        with (self.place / "stderr").open("w") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "sweep", *words, *self.options],
                env={
                    **os.environ,
                    "SWEEP_HOME": str(self.home),
                    "OMP_NUM_THREADS": "1",
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                text=True,
            )

    def finish(self, process: subprocess.Popen[str], *, hurt: str = "") -> bool:
        """Wait for its end; whether that was a good one. A bad one is a line that says
        how to go on, unless the driver was killed.
        """
        code = process.wait(PATIENCE)
        said = (self.place / "stderr").read_text(errors="replace")
        ways_on = (f"`sweep resume {NAME}`", "the same command")
        is_line = "Traceback" not in said and (
            code == 0 or any(way in said for way in ways_on)
        )
        if hurt == "driver" and (left := self.left()):
            self.problems.append(f"left a minute after their driver: {left}")
        if hurt == "driver" and self.disk:
            self.disk.start_again()
        if hurt != "driver" and not (is_line and code in ((0, 1) if hurt else (0,))):
            self.problems.append(
                f"code {code} after {hurt or 'nothing'}: {said[-500:]!r}"
            )
        return code == 0

    def left(self) -> list[str]:
        """What still runs of this sweep a minute later; its processes end by
        themselves.
        """
        deadline = time.monotonic() + 60
        while True:
            found = []
            for each in psutil.process_iter():
                with suppress(psutil.Error, OSError):
                    if each.environ().get("SWEEP_HOME") == str(self.home):
                        found.append(each.name())
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.2)

    def note_pause(self, victim: str, process: subprocess.Popen[str]) -> None:
        """Measure the seconds to the next epoch on disk."""
        before, started = len(self.rows()), time.monotonic()
        while process.poll() is None and len(self.rows()) <= before:
            time.sleep(0.05)
        self.pauses.append(f"{victim} {time.monotonic() - started:.0f}")

    def kill(self, victim: str, process: subprocess.Popen[str]) -> bool:
        """Kill a victim near the start or once a further epoch is on disk; False where
        the sweep has ended before.
        """
        is_early = self.draw.random() < 0.3
        before, deadline = (
            -1 if is_early else len(self.rows()),
            time.monotonic() + PATIENCE,
        )
        while process.poll() is None and time.monotonic() < deadline:
            found = _found(victim, process) if len(self.rows()) > before else None
            if found is not None:
                time.sleep(self.draw.uniform(0.0, 8.0 if is_early else 0.3))
                if process.poll() is not None:
                    return False
                # An epoch that another one follows has been flushed to the disk.
                rows = list(self.rows().items())
                with suppress(psutil.Error):
                    found.kill()
                    if self.disk:
                        self.known |= dict(rows[:-1])
                        self.disk.cut_power()
                    self.kills["power cut" if self.disk else victim] += 1
                    return True
            time.sleep(0.05)
        return False


def _figures(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if "seconds" not in name}


def _found(victim: str, process: subprocess.Popen[str]) -> psutil.Process | None:
    with suppress(psutil.Error):
        driver = psutil.Process(process.pid)
        if victim == "driver":
            return driver
        names = (
            TUNE_TRIALS if victim == "Tune trial" else ({**GOES_ON, **ENDS}[victim],)
        )
        for child in driver.children(recursive=True):
            with suppress(psutil.Error):
                if any(
                    word.startswith(names)
                    for word in (child.name(), *child.cmdline()[:1])
                ):
                    return child
    return None


def check(sweep: Hurt, seen: Rows, expected: list[dict[str, Any]]) -> tuple[str, bool]:
    """The last columns of a row, and whether all is well."""
    rows = sweep.rows()
    lost = sum(rows.get(key) != figures for key, figures in seen.items())
    is_sealed = sweep.trained.path.name == "draws"
    home = sweep.home
    ledger = Vault(SweepFolder(home / NAME)).ledger_file if is_sealed else home / FILE
    furthest: dict[tuple[str, int, int], int] = {}
    for entry in Ledger(ledger).entries():
        key = (entry.trial, entry.attempt, entry.first_epoch)
        furthest[key] = max(furthest.get(key, 0), entry.epochs)
    paid = Counter(
        (t, e + 1)
        for (t, _, first), last in furthest.items()
        for e in range(first, last)
    )
    uncharged_epochs = len(rows.keys() - paid.keys())
    again = sum(paid.values()) - len(paid)
    whole = all(r.status.is_finished for r in sweep.trained.records())
    same = "-"
    if sweep.space["base"]["privacy"]["reproducible_noise"]:
        same = "yes" if sweep.results() == expected else "NO"
    for trial in (r.plan.id for r in sweep.trained.records() if r.status.is_finished):
        sweep.problems += manifest.differences(sweep.trained.trial_folder(trial))
    well = not (lost or uncharged_epochs or sweep.problems) and whole and same != "NO"
    for problem in sweep.problems:
        print(problem, file=sys.stderr, flush=True)
    kills = ", ".join(f"{number} {name}" for name, number in sweep.kills.items())
    ended = "yes" if whole else "NO"
    pauses = ", ".join(sweep.pauses) or "-"
    return (
        f"{kills} | {pauses} | {len(rows)} | {lost} | {uncharged_epochs} | {again} |"
        f" {ended} | {same} |",
        well,
    )


Outcome = tuple[str, bool, Counter[str]]


def run(place: Path, kind: str, on: str, draw: random.Random) -> Outcome:
    """Hurt a sweep with each victim of its executor once; those that it goes on without
    first.
    """
    space, untracked = document(kind, EXECUTORS[on]), ["--tracking", "none"]
    whole = Hurt(place / "whole", space, untracked)
    whole.finish(whole.start())
    disk = Disk(place / "disk") if on == "power" else None
    hurt = Hurt(place / "hurt", space, untracked, draw, disk)
    if disk is None:
        return _hurt(hurt, whole, f"{kind}, {on}")
    disk.make()
    try:
        return _hurt(hurt, whole, f"{kind}, {on}")
    finally:
        disk.remove()


def _hurt(hurt: Hurt, whole: Hurt, name: str) -> Outcome:
    draw, on_ray = hurt.draw, hurt.space["resources"]["executor"] == "gang"
    # A local search or selection is over after few epochs.
    ends = draw.sample(list(ENDS), len(ENDS)) if on_ray else ["driver"] * 5
    seen: Rows = {}
    for number, end in enumerate(ends):
        process = hurt.start()
        if on_ray and number == 0:
            for victim in draw.sample(list(GOES_ON), len(GOES_ON)):
                if hurt.kill(victim, process):
                    seen |= hurt.rows()
                    hurt.note_pause(victim, process)
        hurt.kill(end, process)
        is_over = hurt.finish(process, hurt=end)
        seen |= hurt.rows()
        if is_over:
            break
    hurt.finish(hurt.start())
    hurt.problems += whole.problems
    text, well = check(hurt, seen | hurt.known, whole.results())
    return f"| {name} | {text}", well, hurt.kills


@contextmanager
def server(home: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """MLflow's server of a home."""
    home.mkdir(exist_ok=True)
    words = ["server", "--port", str(port), "--workers", "1"]
    store = ["--backend-store-uri", f"sqlite:///{home}/server.db"]
    nowhere = subprocess.DEVNULL
    command = [sys.executable, "-m", "mlflow", *words, *store]
    process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
    try:
        while process.poll() is None:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            time.sleep(0.2)
        yield process
    finally:
        own = psutil.Process(process.pid)
        for each in (*own.children(recursive=True), own):
            with suppress(psutil.Error):
                each.kill()
        process.wait()


def run_tracked(place: Path, executor: str) -> Outcome:
    """Hurt the server of a sweep, which goes on; a resume delivers the rest."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place.mkdir()
    options = ["--tracking-uri", f"http://127.0.0.1:{port}"]
    hurt = Hurt(place / "hurt", document("plain", executor), options)
    hurt.place.mkdir()
    with server(place, port):
        process = hurt.start()
        while not hurt.rows() and process.poll() is None:
            time.sleep(0.05)
        hurt.kills["MLflow server"] += 1
    seen = hurt.rows()
    hurt.finish(process, hurt="MLflow server")
    said = (hurt.place / "stderr").read_text()
    if "MLflow failed" not in said:
        hurt.problems.append(f"no line about MLflow: {said[-500:]!r}")
    results = hurt.results()
    with server(place, port):
        hurt.finish(hurt.start())
        if "MLflow failed" in (hurt.place / "stderr").read_text():
            hurt.problems.append("a resume did not deliver the rest")
    text, well = check(hurt, seen, results)
    return f"| plain, {executor}, MLflow | {text}", well, hurt.kills


def main() -> int:
    """Print a row a sweep, then the number of kills."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kinds", nargs="+", choices=[*KINDS, "mlflow"], default=[*KINDS, "mlflow"]
    )
    parser.add_argument(
        "--on", nargs="+", choices=list(EXECUTORS), default=["local", "gang"]
    )
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw, all_well, kills = random.Random(given.seed), True, Counter[str]()
    heads = "sweep | kills | seconds to the next epoch | epochs | lost | unpaid"
    print(f"| {heads} | charged again | ended | same bits |\n|{'---|' * 9}", flush=True)
    for executor in given.on:
        for kind in given.kinds:
            if executor != "gang" and kind == "asha":
                continue  # it has no scheduler
            if executor == "power" and kind == "mlflow":
                continue  # its server is what is killed
            with tempfile.TemporaryDirectory(
                prefix="fault-", ignore_cleanup_errors=True
            ) as work:
                place = Path(work) / kind
                if kind == "mlflow":
                    text, well, found = run_tracked(place, executor)
                else:
                    place.mkdir()
                    text, well, found = run(place, kind, executor, draw)
            print(text, flush=True)
            all_well &= well
            kills += found
    print(
        f"\n{kills.total()} kills: {dict(kills)};"
        f" {'all well' if all_well else 'NOT WELL'}"
    )
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
