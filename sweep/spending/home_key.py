"""The secret key of a home: the names that data sets have under it, and the hashes that tell which
share records.

A data set's fingerprint is a plain hash of private records, so an adversary who knows all of them
but one can test candidates for the last. Files therefore contain the fingerprint's HMAC under a key
that only its owner may read and that never leaves the home.

Every distinct record is stored as 8 bytes of BLAKE2b under the key, sorted, one file a data set,
and once more without its spaces, which depend on how it was cut into tokens (16 MB a million
records). The lists are complete, because one shared record is enough for two spends to add up, and
a sketch would miss it. Without the key the hashes cannot be tested against guessed records.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables.errors import InvalidData, InvalidInput
from trainables.system.disk import flush

_KEY_BYTES = 32
_NAME = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{32}")  # an HMAC, and the tag of its key
_PLAIN = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z_.-]{0,127}")


class HomeKey:
    """The key in `file`, drawn at its first use."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._names: dict[str, str] = {}

    def name_of(self, fingerprint: str) -> str:
        """The name of a data set: the HMAC-SHA256 of its fingerprint, and the tag of the key. A
        name is returned unchanged.

        Raises: InvalidInput unless it is a fingerprint, InvalidData for a name under another key.
        """
        if fingerprint not in self._names:
            self._names[fingerprint] = self._name(fingerprint)
        return self._names[fingerprint]

    def _name(self, fingerprint: str) -> str:
        tag = self.tag().hex()
        if _NAME.fullmatch(fingerprint):
            if not fingerprint.endswith(f".{tag}"):
                raise InvalidData(
                    f"expected the key under which the ledger's data sets are named in {self.file},"
                    " got another: restore it from a copy"
                )
            return fingerprint
        if not _PLAIN.fullmatch(fingerprint):
            raise InvalidInput(f"expected a data set's fingerprint, got {fingerprint!r}")
        mac = hmac.new(self.read(), b"data set\0" + fingerprint.encode(), hashlib.sha256)
        return f"{mac.hexdigest()}.{tag}"

    def tag(self, purpose: bytes = b"record hashes") -> bytes:
        """16 bytes for a `purpose` that identify the key without revealing it."""
        return hashlib.blake2b(purpose, digest_size=16, key=self.read()).digest()

    def read(self) -> bytes:
        """The secret key, drawn by the first process.

        Raises: InvalidInput where others may read the file, InvalidData where it is damaged.
        """
        if not self.file.exists():
            self._draw()
        mode = self.file.stat().st_mode & 0o777
        if mode & 0o077:
            raise InvalidInput(
                f"expected {self.file} to be readable by its owner only, got mode {mode:o}"
            )
        key = self.file.read_bytes()
        if len(key) != _KEY_BYTES:
            raise InvalidData(f"expected {_KEY_BYTES} bytes in {self.file}, got {len(key)}")
        return key

    def _draw(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.file.with_name(f".{self.file.name}.{secrets.token_hex(8)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, self.file)  # fails, rather than replaces, where another came first
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
        flush(self.file.parent)


_SUFFIX = ".u64"
PURPOSE = b"record hashes, with and without spaces"
Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class _Listed:
    """Sorted hashes of the distinct records as they are, and without their spaces. A list that was
    carried over (`benchmarks/carry_ledger_over.py`) may have none of the latter.
    """

    whole: Hashes
    joined: Hashes

    def num_shared(self, other: _Listed) -> int:
        """The number of records that both have."""
        mine, theirs = self.joined, other.joined
        if not len(mine) or not len(theirs):
            mine, theirs = self.whole, other.whole
        return len(np.intersect1d(mine, theirs, assume_unique=True))


class RecordHashes:
    """The hashes of the data sets of one ledger: a folder of lists, each under the data set's name
    (`HomeKey.name_of`).
    """

    def __init__(self, folder: Path, *, key: HomeKey) -> None:
        self.folder = folder
        self._home_key = key
        self._shared: dict[str, tuple[dict[str, Path], dict[str, int]]] = {}

    def register(self, fingerprint: str, records: Iterable[bytes]) -> int:
        """Store the hashes of a data set's records; returns the number of distinct ones.

        A registered data set is unchanged, because its fingerprint identifies its content.
        """
        name = self._home_key.name_of(fingerprint)
        known = self._files().get(name)
        if known is not None:
            return len(self._load(known).whole)
        path = self.folder / f"{name}{_SUFFIX}"
        key = self._home_key.read()
        both = ((record, b"".join(record.split())) for record in records)
        hashes = np.fromiter((_hash(text, key) for texts in both for text in texts), dtype="<u8")
        whole, joined = np.unique(hashes[::2]), np.unique(hashes[1::2])
        content = np.concatenate([np.array([len(whole), len(joined)], "<u8"), whole, joined])
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(self._home_key.tag(PURPOSE) + content.astype("<u8").tobytes())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        flush(self.folder)
        return len(whole)

    def is_registered(self, fingerprint: str) -> bool:
        """Whether the data set is registered."""
        return self._home_key.name_of(fingerprint) in self._files()

    def overlaps(self, fingerprint: str) -> dict[str, int]:
        """Names of the other data sets that share records with this one, and how many.

        Empty for a data set that is not registered.
        """
        name, files = self._home_key.name_of(fingerprint), self._files()
        if name not in files:
            return {}
        listed, found = self._shared.get(name, ({}, {}))
        if listed == files:  # a list is never changed
            return dict(found)
        mine = self._load(files[name])
        found = {}
        for other, path in files.items():
            if other != name and (count := mine.num_shared(self._load(path))):
                found[other] = count
        self._shared[name] = files, found
        return dict(found)

    def _files(self) -> dict[str, Path]:
        """The list of each data set by its name."""
        paths = sorted(self.folder.glob(f"[!.]*{_SUFFIX}"))
        try:
            return {self._home_key.name_of(path.name.removesuffix(_SUFFIX)): path for path in paths}
        except InvalidData:
            raise self._key_mismatch(self.folder) from None

    def _load(self, path: Path) -> _Listed:
        content = path.read_bytes()
        tag, own = content[:16], content[16:]
        if len(own) % 8 or tag != self._home_key.tag(PURPOSE):
            raise self._key_mismatch(path)
        found = np.frombuffer(own, dtype="<u8").astype(np.uint64)
        sizes, listed = found[:2].tolist(), found[2:]
        if len(sizes) != 2 or sum(sizes) != len(listed):
            raise self._key_mismatch(path)
        return _Listed(listed[: sizes[0]], listed[sizes[0] :])

    def _key_mismatch(self, place: Path) -> InvalidData:
        return InvalidData(
            f"expected hashes under the key {self._home_key.file} in {place}:"
            " restore the key or the file from a copy"
        )


def _hash(record: bytes, key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(record, digest_size=8, key=key).digest(), "little")
