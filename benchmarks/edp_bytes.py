"""The bytes that eDP-SGD must move beyond plain SGD, and how far its time is from a mere copy's.

    python benchmarks/edp_bytes.py --numbers 5600000

Of a flat gradient of D float32 numbers, with the gradient already in memory: its norm reads it
once (4 D bytes), and one pass reads it, multiplies it by the clip factor, adds the noise and writes
it (8 D). Nothing else of the size of the model is touched: the noise's random words stay in the
cache. Each pass is timed beside a copy of as many bytes in the same round; medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from trainables.privacy import _native
from trainables.privacy.flat import FlatGradient, Layout
from trainables.privacy.noise import GaussianSource, add_noise_, public_key


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numbers", type=int, default=5_600_000, help="D")
    parser.add_argument("--rounds", type=int, default=31)
    options = parser.parse_args()
    torch.set_num_threads(1)
    size = options.numbers
    gradient = FlatGradient(Layout.of(nn.Linear(size, 1, bias=False)))
    gradient.data.normal_()
    source, target = torch.zeros(size), torch.zeros(size)
    stream = public_key(0, "bytes").stream("pass")
    words = GaussianSource(stream)
    where = [(slice(0, size), 1e-3)]
    passes: dict[str, tuple[int, Callable[[], object]]] = {
        "copy": (8, lambda: target.copy_(source)),
        "norm (read)": (4, gradient.norm),
        "scale alone (read, write)": (8, lambda: gradient.data.mul_(0.999)),
        "clip and noise (read, write)": (
            8,
            lambda: add_noise_(gradient.data, stream=stream, segments=where, factor=0.999),
        ),
        "random words alone (cache)": (0, lambda: _words(words, size)),
    }
    times: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(options.rounds + 2):
        for name, (_, run) in passes.items():
            started = time.process_time()
            run()
            times[name].append(time.process_time() - started)
    copy = statistics.median(times["copy"][2:]) / 8  # seconds of D bytes
    kind = "without a compiler" if _native.add_normals() is None else "compiled"
    print(
        f"D = {size:,} float32, noise {kind}; copy {1e-9 * size / copy:.1f} GB/s (read and write)"
    )
    print(f"{'pass':<32}{'bytes':>8}{'ns/number':>11}{'x a copy of its bytes':>24}")
    for name, (count, _) in passes.items():
        median = statistics.median(times[name][2:])
        over = f"{median / (copy * count):.2f}" if count else "-"
        print(f"{name:<32}{f'{count} D':>8}{1e9 * median / size:>11.2f}{over:>24}")


def _words(source: GaussianSource, size: int) -> None:
    """What the cipher alone takes: 4 bytes a number."""
    piece = memoryview(bytes(1 << 18))
    for _ in range(size * 4 >> 18):
        source._encryptor.update_into(piece, source._raw)


if __name__ == "__main__":
    main()
