"""Which data sets share records, without keeping a record: keyed hashes in side files.

Every distinct record is kept as 8 bytes of BLAKE2b under a secret key of this ledger, sorted, one
file a data set (8 MB a million records). Full lists, not a sketch: one shared record is enough for
two spends to add up, and a sketch would miss it. Without the key, which only its owner may read,
the hashes cannot be tried against guessed records.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweep.store.files import flush_folder
from trainables.errors import InvalidData, InvalidInput

_KEY_BYTES = 32
_FINGERPRINT = re.compile(r"[0-9A-Za-z_.-]{1,128}")


class RecordHashes:
    """The hashes of the data sets of one ledger: a folder of lists, and the key beside it."""

    def __init__(self, folder: Path, *, key_file: Path) -> None:
        self.folder = folder
        self.key_file = key_file

    def register(self, fingerprint: str, records: Iterable[bytes]) -> int:
        """Keep the hashes of a data set's records; returns how many distinct ones there are.

        A data set that is registered already is left as it is: its fingerprint names its content.
        """
        path = self._path(fingerprint)
        if path.exists():
            return len(self._load(fingerprint))
        key = self._key()
        hashes = np.fromiter((_hash(record, key) for record in records), dtype="<u8")
        distinct = np.unique(hashes)
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_tag(key) + distinct.astype("<u8").tobytes())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        flush_folder(self.folder)
        return len(distinct)

    def known(self, fingerprint: str) -> bool:
        """Whether the data set is registered."""
        return self._path(fingerprint).exists()

    def shared(self, fingerprint: str) -> dict[str, int]:
        """Fingerprints of the other data sets that share records with this one, and how many.

        Empty for a data set that is not registered.
        """
        if not self.known(fingerprint):
            return {}
        mine = self._load(fingerprint)
        found = {}
        for path in sorted(self.folder.glob("*.u64")):
            other = path.name.removesuffix(".u64")
            if other != fingerprint:
                count = len(np.intersect1d(mine, self._load(other), assume_unique=True))
                if count:
                    found[other] = count
        return found

    def _path(self, fingerprint: str) -> Path:
        if not _FINGERPRINT.fullmatch(fingerprint) or fingerprint.startswith("."):
            raise InvalidInput(f"expected a data set's fingerprint, got {fingerprint!r}")
        return self.folder / f"{fingerprint}.u64"

    def _load(self, fingerprint: str) -> NDArray[np.uint64]:
        content = self._path(fingerprint).read_bytes()
        tag = _tag(self._key())
        if content[: len(tag)] != tag or (len(content) - len(tag)) % 8:
            raise InvalidData(
                f"expected hashes under the key {self.key_file} in {self._path(fingerprint)}:"
                " restore the key or the file from a copy"
            )
        return np.frombuffer(content[len(tag) :], dtype="<u8").astype(np.uint64)

    def _key(self) -> bytes:
        """The secret key; drawn by whoever comes first."""
        if not self.key_file.exists():
            self._draw_key()
        mode = self.key_file.stat().st_mode & 0o777
        if mode & 0o077:
            raise InvalidInput(
                f"expected {self.key_file} to be readable by its owner only, got mode {mode:o}"
            )
        key = self.key_file.read_bytes()
        if len(key) != _KEY_BYTES:
            raise InvalidData(f"expected {_KEY_BYTES} bytes in {self.key_file}, got {len(key)}")
        return key

    def _draw_key(self) -> None:
        self.key_file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.key_file.with_name(f".{self.key_file.name}.{secrets.token_hex(8)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, self.key_file)  # fails, rather than replaces, where another came first
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
        flush_folder(self.key_file.parent)


def _hash(record: bytes, key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(record, digest_size=8, key=key).digest(), "little")


def _tag(key: bytes) -> bytes:
    """Names the key without giving it away."""
    return hashlib.blake2b(b"record hashes", digest_size=16, key=key).digest()
