"""What an epoch's charge costs where a data set has a total, by the length of the
ledger.

    python benchmarks/ledger.py [--entries 1000 100000] [--charges 50]

A ledger of trials of ten epochs each, with thirty levels of noise or with one of its
own for each trial, is made in a temporary folder. Printed: milliseconds of a charge
within a total of all sweeps (median and 95th percentile) without the disk's own flush;
milliseconds of a flush.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from sweep.spending.ledger import FILE, Entry, Ledger, entry_for
from trainables.config.mechanism import build_from
from trainables.config.trial import TrainingConfig
from trainables.dp.mechanism import Mechanism

EPOCHS = 10
TOTAL = 1e6


def mechanism(noise: float, sampling: str) -> Mechanism:
    """A trial's mechanism."""
    return build_from(
        "dp_sgd",
        {"noise_multiplier": noise, "delta": 1e-5, "sampling": sampling},
        training=TrainingConfig(epochs=EPOCHS, expected_batch_size=64, num_workers=1),
        num_records=4_478,
    )


def entries(noises: Iterator[float], sampling: str) -> Iterator[Entry]:
    """One trial's epochs after another's."""
    for number, noise in enumerate(noises):
        what = mechanism(noise, sampling)
        for epoch in range(1, EPOCHS + 1):
            yield entry_for(
                what, dataset="d", sweep="s@1", trial=f"t{number}", epochs=epoch
            )


@contextmanager
def flushes(action: Callable[[int], None]) -> Iterator[None]:
    """`os.fsync` does `action` in the block."""
    with patch.object(os, "fsync", action):
        yield


def flush_seconds(folder: Path, times: int = 20) -> float:
    """The median of a line written and flushed."""
    found = []
    with (folder / "flushed").open("ab", buffering=0) as file:
        for _ in range(times):
            started = time.perf_counter()
            file.write(b"x" * 400)
            os.fsync(file.fileno())
            found.append(time.perf_counter() - started)
    return statistics.median(found)


def measure(num_entries: int, levels: int | None, sampling: str, charges: int) -> str:
    """One row."""
    fresh = itertools.count()
    noises = (
        1.0 + (next(fresh) if levels is None else index % levels) / 1e3
        for index in itertools.count()
    )
    stream = entries(noises, sampling)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / FILE
        with flushes(lambda descriptor: None):
            book = Ledger(path)
            for entry in itertools.islice(stream, num_entries):
                book.charge(entry)
            book = Ledger(path)
            book.of_sweep("s@1")
            taken = []
            for entry in itertools.islice(stream, charges):
                started = time.perf_counter()
                reason = book.charge(entry, budget_total=TOTAL)
                taken.append(time.perf_counter() - started)
                assert reason is None, reason
        flush = flush_seconds(Path(name))
    taken.sort()
    return (
        f"{num_entries:>8} {sampling:>8} {levels or 'all':>7}"
        f" {1e3 * statistics.median(taken):>9.2f}"
        f" {1e3 * taken[int(0.95 * len(taken))]:>7.2f} {1e3 * flush:>7.2f}"
    )


def main() -> None:
    """Print a row for each length, sampling and number of noise levels."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--charges", type=int, default=50)
    options = parser.parse_args()
    print(" entries sampling  levels charge ms    95 % flush ms")
    for num_entries in options.entries:
        for sampling in ("shuffle", "poisson"):
            for levels in (30, None):
                print(
                    measure(num_entries, levels, sampling, options.charges), flush=True
                )


if __name__ == "__main__":
    main()
