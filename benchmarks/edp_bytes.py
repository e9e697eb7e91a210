"""The bytes that eDP-SGD must move beyond plain SGD, and how far its time is from a mere copy's.

    python benchmarks/edp_bytes.py --numbers 5600000

Of a flat gradient of D float32 numbers, with the gradient already in memory: its norm reads it
once (4 D bytes). Adam's step reads gradient, weights and two moments and writes all four (32 D). By
itself the noise would read and write the gradient (8 D); in Adam's pass it moves nothing more, and
its random words stay in the cache. Each pass is timed beside a copy of as many bytes in the same
round; medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import nn

from trainables.privacy import _native
from trainables.privacy.flat import FlatGradient, Layout
from trainables.privacy.flat_adam import FlatAdam
from trainables.privacy.noise import add_noise_, public_key


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numbers", type=int, default=5_600_000, help="D")
    parser.add_argument("--rounds", type=int, default=31)
    options = parser.parse_args()
    torch.set_num_threads(1)
    size = options.numbers
    layout = Layout.of(nn.Linear(size, 1, bias=False))
    gradient = FlatGradient(layout)
    gradient.data.normal_()
    adam = FlatAdam(layout, learning_rate=1e-3)
    source, target = torch.zeros(size), torch.zeros(size)
    stream = public_key(0, "bytes").stream("pass")
    how: dict[str, Any] = {"stream": stream, "segments": [(slice(0, size), 1e-3)], "factor": 0.999}
    passes: dict[str, tuple[int, Callable[[], object]]] = {
        "copy": (8, lambda: target.copy_(source)),
        "norm": (4, gradient.norm),
        "clip and noise": (8, lambda: add_noise_(gradient.data, **how)),
        "Adam": (32, lambda: adam.step(gradient, share=1.0)),
        "clip, noise and Adam in one": (
            32,
            lambda: add_noise_(gradient.data, adam=adam, **how),
        ),
        "the library's cipher alone (cache)": (0, lambda: _words(stream, size)),
    }
    times: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(options.rounds + 2):
        for name, (_, run) in passes.items():
            started = time.process_time()
            run()
            times[name].append(time.process_time() - started)
    copy = statistics.median(times["copy"][2:]) / 8  # seconds of D bytes
    kind = "without a compiler" if _native.add_noise() is None else "compiled"
    print(
        f"D = {size:,} float32, noise {kind}; copy {1e-9 * size / copy:.1f} GB/s (read and write)"
    )
    print(f"{'pass':<32}{'bytes':>8}{'ns/number':>11}{'x a copy of its bytes':>24}")
    for name, (count, _) in passes.items():
        median = statistics.median(times[name][2:])
        over = f"{median / (copy * count):.2f}" if count else "-"
        print(f"{name:<32}{f'{count} D':>8}{1e9 * median / size:>11.2f}{over:>24}")


def _words(stream: bytes, size: int) -> None:
    """What the library's cipher takes: 4 bytes a number."""
    encryptor = Cipher(algorithms.AES(stream[:32]), modes.CTR(stream[32:48])).encryptor()
    piece, room = memoryview(bytes(1 << 16)), bytearray((1 << 16) + 16)
    for _ in range(size * 4 >> 16):
        encryptor.update_into(piece, room)


if __name__ == "__main__":
    main()
