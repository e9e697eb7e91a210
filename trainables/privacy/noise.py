"""The secret key of a trial attempt, and the Gaussian noise that is drawn from it.

A key is 32 bytes of the operating system. Streams are named by (purpose, trial, attempt, worker,
step) through keyed BLAKE2b, so two names give independent streams and none reveals the key. It is
never shown, logged or derived from a seed (`reproducible_noise` does derive it, and then no epsilon
holds).

The noise is AES-256-CTR of `cryptography` and the Box-Muller of `box_muller`, drawn on the CPU for
every device.
torch's `normal_` ends at 5.8 standard deviations on a CPU and near 6.7 on CUDA; millions of
coordinates reach that end, which reveals more than a delta of 1e-5 allows, and its generator takes
only 32 bits of a seed on a CPU, 64 on CUDA. A GPU draws with it only where a config asks for that.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

from trainables.privacy import box_muller
from trainables.system.communication import Communicator

_KEY_BYTES = 32
_CHUNK = 1 << 16  # numbers drawn at once, whose words fit the processor's cache
_MOST_BYTES = 4 * (_CHUNK + box_muller.num_extra(_CHUNK // 2))
_ZEROS = memoryview(bytes(_MOST_BYTES))


class SecretKey:
    """32 secret bytes. Its text form shows nothing; it does not pickle."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _KEY_BYTES:
            raise ValueError(f"expected a key of {_KEY_BYTES} bytes, got {len(secret)} bytes")
        self._secret = secret

    def __repr__(self) -> str:
        return "SecretKey(...)"

    def __reduce__(self) -> str:
        raise TypeError("a secret key is not pickled: it never leaves its process")

    def stream(self, *names: str | int) -> bytes:
        """64 bytes for the stream called `names`, independent between different names."""
        text = json.dumps(names).encode()
        return hashlib.blake2b(text, key=self._secret, person=b"dp-nlu-sweep").digest()

    def coins(self, *names: str | int) -> np.random.Generator:
        """A NumPy generator for secret choices (sampled members, micro-batches)."""
        digest = self.stream("coins", *names)
        key = np.frombuffer(digest[:16], dtype=np.uint64)
        counter = np.frombuffer(digest[16:48], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))


def new_key(comm: Communicator) -> SecretKey:
    """A fresh key from the operating system, the same on every process of a trial."""
    return SecretKey(comm.broadcast(os.urandom(_KEY_BYTES)))


def public_key(seed: int, trial_id: str) -> SecretKey:
    """The key of a `reproducible_noise` trial. It is public, so it gives no privacy."""
    return SecretKey(hashlib.sha256(f"public noise/{seed}/{trial_id}".encode()).digest())


class GaussianSource:
    """Independent N(0, 1) float32 from one stream, in order, by AES-256-CTR and Box-Muller."""

    def __init__(self, stream: bytes) -> None:
        cipher = Cipher(algorithms.AES(stream[:32]), modes.CTR(stream[32:48]))
        self._encryptor = cipher.encryptor()
        self._raw = np.empty(_MOST_BYTES + 16, dtype=np.uint8)  # room for one more block

    def fill_(self, out: Tensor) -> Tensor:
        """Overwrite `out` (float32, CPU, contiguous, one dimension) with N(0, 1)."""
        self.add_(out.zero_())
        return out

    def add_(self, target: Tensor, *, std: float = 1.0, factor: float = 1.0) -> None:
        """target = target * factor + std * N(0, 1), read and written once (as in `fill_`)."""
        numbers = target.numpy()
        for start in range(0, len(numbers), _CHUNK):
            part = numbers[start : start + _CHUNK]
            half = (len(part) + 1) // 2
            size = 4 * (2 * half + box_muller.num_extra(half))
            self._encryptor.update_into(_ZEROS[:size], self._raw.data)
            words = self._raw[:size].view(np.uint32)
            box_muller.add_normals(words, half, part, factor=factor, std=std)


def is_cipher(device: torch.device, *, secure: bool) -> bool:
    """Whether noise on `device` is AES-256-CTR: on any but a GPU without `secure`."""
    return secure or device.type != "cuda"


def add_noise_(
    target: Tensor,
    *,
    stream: bytes,
    segments: Sequence[tuple[slice, float]],
    factor: float = 1.0,
    secure: bool = True,
) -> None:
    """target = target * factor + independent Gaussian noise of each segment's standard deviation.

    `segments` cover `target` [D] in order, without gaps or overlap. The same stream gives the same
    noise: use each for one step of one worker. Without `secure` a GPU draws with its own generator.
    A CPU's float32 target is read and written once.
    """
    if not is_cipher(target.device, secure=secure):
        _add_device_noise_(target.mul_(factor), stream, segments)
        return
    source = GaussianSource(stream)
    direct = target.device.type == "cpu" and target.dtype == torch.float32
    for where, std in segments:
        part = target[where]
        if direct:
            source.add_(part, std=std, factor=factor)
        else:
            noise = source.fill_(torch.empty(part.numel(), dtype=torch.float32))
            part.mul_(factor).add_(noise.to(part.device, part.dtype), alpha=std)


def _add_device_noise_(
    target: Tensor, stream: bytes, segments: Sequence[tuple[slice, float]]
) -> None:
    generator = torch.Generator(device=target.device)
    generator.manual_seed(int.from_bytes(stream[:8], "little", signed=True))
    noise = torch.empty(target.numel(), dtype=torch.float32, device=target.device)
    noise.normal_(generator=generator)
    for where, std in segments:
        target[where].add_(noise[where], alpha=std)
