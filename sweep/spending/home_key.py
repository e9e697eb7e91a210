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
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables.errors import InvalidData, InvalidInput
from trainables.system.disk import flush

_KEY_BYTES = 32
_NAME = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{32}")  # an HMAC, and the tag of its key
_PLAIN = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z_.-]{0,127}")
_SUFFIX = ".u64"
PURPOSE = b"record hashes, with and without spaces"
Hashes = NDArray[np.uint64]


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
        if fingerprint in self._names:
            return self._names[fingerprint]
        name, tag = fingerprint, self.tag().hex()
        if not _NAME.fullmatch(fingerprint):
            if not _PLAIN.fullmatch(fingerprint):
                raise InvalidInput(f"expected a data set's fingerprint, got {fingerprint!r}")
            mac = hmac.new(self.read(), b"data set\0" + fingerprint.encode(), hashlib.sha256)
            name = f"{mac.hexdigest()}.{tag}"
        elif not fingerprint.endswith(f".{tag}"):
            raise InvalidData(
                f"expected the key under which the ledger's data sets are named in {self.file},"
                " got another: restore it from a copy"
            )
        self._names[fingerprint] = name
        return name

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
        fresh = _fresh_file(self.file.parent, secrets.token_bytes(_KEY_BYTES))
        try:
            os.link(fresh, self.file)  # fails, rather than replaces, where another came first
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
        flush(self.file.parent)


class RecordHashes:
    """The hashes of the data sets of one ledger: a folder of lists, each under the data set's name
    (`HomeKey.name_of`).
    """

    def __init__(self, folder: Path, *, key: HomeKey) -> None:
        self.folder = folder
        self._home_key = key
        self._shared: dict[tuple[str, ...], dict[str, int]] = {}

    def register(self, fingerprint: str, records: Iterable[bytes]) -> int:
        """Store the hashes of a data set's records; returns the number of distinct ones.

        A registered data set is unchanged, because its fingerprint identifies its content.
        """
        name = self._home_key.name_of(fingerprint)
        if (known := self._files().get(name)) is not None:
            return len(self._load(known)[0])
        key, texts = self._home_key.read(), list(records)
        whole = _hashes(texts, key)
        joined = _hashes((b"".join(text.split()) for text in texts), key)
        sizes = np.array([len(whole), len(joined)], "<u8")
        content = self._home_key.tag(PURPOSE) + np.concatenate([sizes, whole, joined]).tobytes()
        _fresh_file(self.folder, content).replace(self.folder / f"{name}{_SUFFIX}")
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
        if (key := (name, *files)) not in self._shared:  # a list is never changed
            mine, found = self._load(files[name]), {}
            for other in sorted(files.keys() - {name}):
                theirs = self._load(files[other])
                # A list that was carried over (`benchmarks/carry_home_over.py`) may have no hashes
                # without spaces.
                place = min(len(mine[1]), len(theirs[1]), 1)
                shared = np.intersect1d(mine[place], theirs[place], assume_unique=True)
                if len(shared):
                    found[other] = len(shared)
            self._shared[key] = found
        return dict(self._shared[key])

    def _files(self) -> dict[str, Path]:
        """The list of each data set by its name."""
        paths = sorted(self.folder.glob(f"[!.]*{_SUFFIX}"))
        try:
            return {self._home_key.name_of(path.name.removesuffix(_SUFFIX)): path for path in paths}
        except InvalidData:
            raise self._key_mismatch(self.folder) from None

    def _load(self, path: Path) -> tuple[Hashes, Hashes]:
        """Sorted hashes of the distinct records as they are, and without their spaces."""
        content = path.read_bytes()
        found = np.frombuffer(content[16 : len(content) // 8 * 8], dtype="<u8")
        sizes, listed = found[:2].tolist(), found[2:]
        is_ours = content[:16] == self._home_key.tag(PURPOSE)
        if not is_ours or len(sizes) < 2 or len(content) != 8 * (4 + sum(sizes)):
            raise self._key_mismatch(path)
        return listed[: sizes[0]], listed[sizes[0] :]

    def _key_mismatch(self, place: Path) -> InvalidData:
        return InvalidData(
            f"expected hashes under the key {self._home_key.file} in {place}:"
            " restore the key or the file from a copy"
        )


def _fresh_file(folder: Path, content: bytes) -> Path:
    """A new hidden file of its owner's, on the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".", dir=folder)
    os.close(descriptor)
    path = Path(name)
    path.write_bytes(content)
    flush(path)
    return path


def _hashes(texts: Iterable[bytes], key: bytes) -> Hashes:
    """Sorted hashes of the distinct texts."""
    each = (hashlib.blake2b(text, digest_size=8, key=key).digest() for text in texts)
    return np.unique(np.frombuffer(b"".join(each), dtype="<u8"))
