"""Plan the accounting of 1,000 distinct configurations, as `sweep plan` does, and time it.

    OMP_NUM_THREADS=1 python benchmarks/accounting.py

The grids are those of Dupuy et al. 2021 (noise, decay kind and rate) under Algorithm 1, under
central noise, and, beyond the paper, Poisson-sampled with one record a micro-batch.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator

from trainables.accountants import account
from trainables.config import Engine, NoiseDecay, PrivacyConfig, TrainingConfig
from trainables.guarantee.mechanism import Mechanism
from trainables.privacy.from_config import build_from

_LINEAR = (0.02, 0.05, 0.07, 0.1, 0.3, 0.5, 0.7, 0.9)
_EXPONENTIAL = (0.01, 0.02, 0.05, 0.08, 0.1, 0.2, 0.35, 0.5)
_DECAYS = (
    NoiseDecay(),
    *(NoiseDecay(kind="linear", tau=tau) for tau in _LINEAR),
    *(NoiseDecay(kind="exponential", tau=tau) for tau in _EXPONENTIAL),
)


def main() -> None:
    """Print seconds of the processor and of the clock for each kind of sweep."""
    kinds = {
        "Algorithm 1": (configurations(shuffled=True), 1_000),
        "Poisson, constant noise": (configurations(shuffled=False, decays=_DECAYS[:1]), 1_000),
        "Poisson, all decays": (configurations(shuffled=False), 1_000),
    }
    for name, (mechanisms, count) in kinds.items():
        chosen = list(itertools.islice(mechanisms, count))
        clock, processor = time.perf_counter(), time.process_time()
        summaries = [account(mechanism, exact=False) for mechanism in chosen]
        clock, processor = time.perf_counter() - clock, time.process_time() - processor
        by = Counter((s.accountant, "tight" if s.tight else "bound") for s in summaries)
        print(
            f"{name:26} {processor:6.1f} s of processor, {clock:6.1f} s of clock for"
            f" {len(chosen)} configurations: {dict(by)}"
        )
    for name, decay in (("constant", _DECAYS[0]), ("decaying", _DECAYS[2])):
        mechanism = build("dp_sgd", 0.987, decay)
        processor = time.process_time()
        value = account(mechanism, exact=True).epsilon
        processor = time.process_time() - processor
        print(f"{'one exactly, ' + name:26} {processor:6.1f} s of processor: epsilon {value:.4f}")


def configurations(
    *, shuffled: bool, decays: tuple[NoiseDecay, ...] = _DECAYS
) -> Iterator[Mechanism]:
    """Distinct mechanisms, noise from 1e-6 to 1 (shuffled) or 0.05 to 2 (Poisson)."""
    count = math.ceil(1_000 / len(decays))
    low, high = (1e-6, 1.0) if shuffled else (0.05, 2.0)
    for index in range(count):
        z0 = low * (high / low) ** (index / max(1, count - 1))
        for decay in decays:
            yield build("edp_sgd" if shuffled else "dp_sgd", z0, decay)


def build(engine: Engine, z0: float, decay: NoiseDecay) -> Mechanism:
    """A mechanism of the paper's size: 2,600 records, 30 epochs, 8 workers."""
    return build_from(
        engine,
        PrivacyConfig(noise_multiplier=z0, noise_decay=decay, delta=5e-4),
        training=TrainingConfig(num_workers=8),
        num_records=2_600,
    )


if __name__ == "__main__":
    main()
