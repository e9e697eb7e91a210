"""The secret key of a trial attempt, and the Gaussian noise that is drawn from it.

A key is 32 bytes of the operating system. Streams are named by (purpose, trial,
attempt, worker, step) through keyed BLAKE2b, so two names give independent streams and
none reveals the key. It is never shown, logged or derived from a seed
(`reproducible_noise` does derive it, and then no epsilon holds).

The noise is AES-256-CTR of `cryptography` and Box & Muller (1958), drawn on the CPU for
every device: `normals` is its definition, which a faster form must meet (`accelerate`).
torch's `normal_` ends at 5.8 standard deviations on a CPU and near 6.7 on CUDA;
millions of coordinates reach that end, which reveals more than a delta of 1e-5 allows,
and its generator takes only 32 bits of a seed on a CPU, 64 on CUDA. A GPU draws with it
only where a config asks for that.
"""

import functools
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray
from torch import Tensor

from trainables.errors import TrialFailed

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]
_KEY_BYTES = 32
_CHUNK = 1 << 16  # numbers drawn at once, whose words fit the processor's cache
_SMALL = np.uint32(1 << 20)
_CHECKED = 16  # numbers of a stream's first chunk that are computed by both forms
_TOLERANCE = (
    1e-5  # between them, in standard deviations: float32 rounds a number of 9 to 1e-6
)


def num_extra(half: int) -> int:
    """How many words beyond two a pair `normals` takes for `half` pairs.

    Sixteen times the expected number; beyond it words would be reused.

    >>> num_extra(1), num_extra(1 << 15)
    (4, 132)
    """
    return 4 + (half >> 8)


_MOST_BYTES = 4 * (_CHUNK + num_extra(_CHUNK // 2))
_ZEROS = memoryview(bytes(_MOST_BYTES))


def normals(words: U32, half: int, *, first: int | None = None) -> NDArray[np.float64]:
    """Independent N(0, 1) from independent uniform words: radii [half], angles [half],
    extra [num_extra(half)]. Pair i gives numbers i and half + i; [2, half], or of the
    `first` pairs.

    The radius is sqrt(-2 ln u). A radius word below 2^20 gets 32 more bits, so that u
    has 64 bits where it is small (radius up to 9.4). The angle's upper two bits are its
    quarter of the circle.
    """
    radii, turns, extra = np.split(
        words[: 2 * half + num_extra(half)], (half, 2 * half)
    )
    radii, turns = radii[:first], turns[:first]
    u = radii.astype(np.float64)
    small = np.flatnonzero(radii < _SMALL)
    u[small] += (extra[np.arange(small.size) % extra.size] | np.uint32(1)) * 2.0**-32
    radius = np.sqrt(-2 * np.log(u * 2.0**-32))
    angle = ((turns << np.uint32(2)) | np.uint32(2)).view(np.int32) * (
        np.pi / 4 * 2.0**-31
    )
    cosine, sine = np.cos(angle) * np.where(turns >> 31, -1, 1), np.sin(angle)
    turned = (turns >> 30) & 1 == 1
    return np.asarray(radius * np.where(turned, [sine, cosine], [cosine, sine]))


# target = target + std * numbers, from (words, half, target, std).
AddNormals = Callable[[U32, int, F32, float], None]


def _add_reference(words: U32, half: int, target: F32, std: float) -> None:
    target += (std * normals(words, half).reshape(-1)[: len(target)]).astype(np.float32)


_offered: AddNormals = _add_reference


def accelerate(add_normals: AddNormals) -> None:
    """Offer a faster form of `normals` to this process. It is used if it gives its
    numbers.
    """
    global _offered
    _offered = add_normals
    _form.cache_clear()


@functools.cache
def _form() -> AddNormals:
    """The offered form; the reference where it differs on 4,096 pairs, small words
    included.
    """
    half = 1 << 12
    words = hard_words(half)
    found, expected = np.ones((2, 2 * half - 1), dtype=np.float32)
    _offered(words, half, found, 1.3)
    _add_reference(words, half, expected, 1.3)
    is_equal = np.allclose(found, expected, rtol=0, atol=1.3 * _TOLERANCE)
    return _offered if is_equal else _add_reference


def hard_words(half: int) -> U32:
    """Words to compare two forms by, small ones included."""
    words = np.random.default_rng(0).integers(2**32, size=3 * half, dtype=np.uint32)
    words[:64] >>= np.arange(64, dtype=np.uint32) // 2
    words[64:96] = np.uint32(0xFFFFFFFF) - np.arange(32, dtype=np.uint32)
    return words


class SecretKey:
    """32 secret bytes, from which every secret stream of a trial is derived: its noise,
    its sampling and its assignment to micro-batches. Its text form shows nothing, and
    it does not pickle, so that it cannot reach a log, a checkpoint or another process
    by accident.

    Raises: ValueError for another number of bytes.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _KEY_BYTES:
            raise ValueError(
                f"expected a key of {_KEY_BYTES} bytes, got {len(secret)} bytes"
            )
        self._secret = secret

    def __repr__(self) -> str:
        return "SecretKey(...)"

    def __reduce__(self) -> str:
        raise TypeError("a secret key is not pickled: it never leaves its process")

    def stream(self, *names: str | int) -> bytes:
        """64 bytes for the stream called `names`, independent between different
        names.
        """
        text = json.dumps(names).encode()
        return hashlib.blake2b(text, key=self._secret, person=b"dp-nlu-sweep").digest()

    def coins(self, *names: str | int) -> np.random.Generator:
        """A NumPy generator for secret choices (sampled members, micro-batches)."""
        digest = self.stream("coins", *names)
        key = np.frombuffer(digest[:16], dtype=np.uint64)
        counter = np.frombuffer(digest[16:48], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))


class Broadcasts(Protocol):
    """What processes of a trial agree by."""

    def broadcast(self, value: Any) -> Any:
        """The value of rank 0, on every rank."""
        ...


def new_key(comm: Broadcasts) -> SecretKey:
    """A fresh key of 32 bytes from the operating system, drawn by the first process of
    `comm` and the same on every process of a trial. Each attempt of a trial takes a new
    one, so noise is never used for two gradients. It is kept in memory alone.
    """
    return SecretKey(comm.broadcast(os.urandom(_KEY_BYTES)))


def public_key(seed: int, trial_id: str) -> SecretKey:
    """The key of a trial with `reproducible_noise`, a hash of its public `seed` and
    `trial_id`: equal arguments give equal noise. Anyone can compute it and subtract the
    noise, so a mechanism with it has an infinite epsilon; it is for tests, audits of
    chosen inputs and debugging.
    """
    return SecretKey(
        hashlib.sha256(f"public noise/{seed}/{trial_id}".encode()).digest()
    )


class GaussianSource:
    """Independent N(0, 1) float32 from one stream, in order, by AES-256-CTR and
    Box-Muller.
    """

    def __init__(self, stream: bytes) -> None:
        cipher = Cipher(algorithms.AES(stream[:32]), modes.CTR(stream[32:48]))
        self._encryptor = cipher.encryptor()
        self._raw = np.empty(
            _MOST_BYTES + 16, dtype=np.uint8
        )  # room for one more block

    def fill_(self, out: Tensor) -> Tensor:
        """Overwrite `out` (float32, CPU, contiguous, one dimension) with N(0, 1)."""
        self.add_(out.zero_())
        return out

    def add_(self, target: Tensor, *, std: float = 1.0) -> None:
        """target = target + std * N(0, 1), read and written once (as in `fill_`)."""
        numbers = target.numpy()
        for start in range(0, len(numbers), _CHUNK):
            part = numbers[start : start + _CHUNK]
            half = (len(part) + 1) // 2
            size = 4 * (2 * half + num_extra(half))
            self._encryptor.update_into(_ZEROS[:size], self._raw.data)
            words = self._raw[:size].view(np.uint32)
            before = part[:_CHECKED].astype(np.float64) if start == 0 else part[:0]
            _form()(words, half, part, std)
            _check(words, half, before, part, std)


def _check(words: U32, half: int, before: NDArray[Any], after: F32, std: float) -> None:
    """Raises: TrialFailed where the first numbers of a chunk are not those of
    `normals`.
    """
    count = min(len(before), half)
    expected = before[:count] + std * normals(words, half, first=count)[0]
    is_right = np.abs(after[:count] - expected) <= _TOLERANCE * (
        std + np.abs(before[:count])
    )
    if not is_right[np.isfinite(expected)].all():
        raise TrialFailed(
            "expected the noise of its definition (trainables.dp.noise.normals), got other"
            " numbers"
        )


def is_cipher(device: torch.device, *, secure: bool) -> bool:
    """Whether noise on `device` is drawn from AES-256-CTR, whose output cannot be told
    from random: on every device with `secure`, and without it on any but a GPU, which
    then uses its own generator. A card states it, because the guarantee assumes a
    cipher.
    """
    return secure or device.type != "cuda"


def add_noise_(
    target: Tensor,
    *,
    stream: bytes,
    segments: Sequence[tuple[slice, float]],
    secure: bool = True,
) -> None:
    """target = target + independent Gaussian noise of each segment's standard
    deviation.

    `segments` cover `target` [D] in order, without gaps or overlap. The same stream
    gives the same noise: use each for one step of one worker. Without `secure` a GPU
    draws with its own generator. A CPU's float32 target is read and written once.
    """
    if not is_cipher(target.device, secure=secure):
        _add_device_noise_(target, stream, segments)
        return
    source = GaussianSource(stream)
    direct = target.device.type == "cpu" and target.dtype == torch.float32
    for where, std in segments:
        part = target[where]
        if direct:
            source.add_(part, std=std)
        else:
            noise = source.fill_(torch.empty(part.numel(), dtype=torch.float32))
            part.add_(noise.to(part.device, part.dtype), alpha=std)


def _add_device_noise_(
    target: Tensor, stream: bytes, segments: Sequence[tuple[slice, float]]
) -> None:
    generator = torch.Generator(device=target.device)
    generator.manual_seed(int.from_bytes(stream[:8], "little", signed=True))
    noise = torch.empty(target.numel(), dtype=torch.float32, device=target.device)
    noise.normal_(generator=generator)
    for where, std in segments:
        target[where].add_(noise[where], alpha=std)
