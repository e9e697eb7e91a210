"""The secret key of a home: the names that data sets have under it, and the hashes that
tell which share records.

A data set's fingerprint is a plain hash of private records, so an adversary who knows
all of them but one can test candidates for the last. Files therefore contain the
fingerprint's HMAC under a key that only its owner may read and that never leaves the
home.

Every distinct record is stored as 8 bytes of BLAKE2b under the key, sorted, one file a
data set, without its spaces, which depend on how it was cut into tokens. The lists are
complete, because one shared record is enough for two spends to add up, and a sketch
would miss it.
"""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweep.store.files import write_bytes
from trainables.errors import InvalidData, InvalidInput
from trainables.io.disk import flush

_KEY_BYTES = 32
_NAME = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{32}")  # an HMAC, and the tag of its key
_PLAIN = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z_.-]{0,127}")
_SUFFIX = ".u64"
_HASH = "<u8"


class HomeKey:
    """The secret key of a home in `file`, drawn at its first use, and beside it the
    folder of lists of hashes (`.records`), each under its data set's name. Who loses
    the key loses the names: nothing is then charged or read (InvalidData).
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.folder = file.with_suffix(".records")
        self._names: dict[str, str] = {}
        self._shared: dict[tuple[str, ...], dict[str, int]] = {}

    def name_of(self, fingerprint: str) -> str:
        """The name of a data set: the HMAC-SHA256 of its fingerprint, and the tag of
        the key. A name is returned unchanged.

        Raises: InvalidInput unless it is a fingerprint, InvalidData for a name under
        another key.
        """
        if fingerprint in self._names:
            return self._names[fingerprint]
        name, tag = fingerprint, self.tag().hex()
        if not _NAME.fullmatch(fingerprint):
            if not _PLAIN.fullmatch(fingerprint):
                raise InvalidInput(
                    f"expected a data set's fingerprint, got {fingerprint!r}"
                )
            mac = hmac.new(
                self.read(), b"data set\0" + fingerprint.encode(), hashlib.sha256
            )
            name = f"{mac.hexdigest()}.{tag}"
        elif not fingerprint.endswith(f".{tag}"):
            raise InvalidData(
                "expected the key under which the ledger's data sets are named in"
                f" {self.file}, got another: restore it from a copy"
            )
        self._names[fingerprint] = name
        return name

    def tag(self) -> bytes:
        """16 bytes that identify the key without revealing it."""
        return hashlib.blake2b(
            b"record hashes", digest_size=16, key=self.read()
        ).digest()

    def read(self) -> bytes:
        """The secret key, drawn by the first process.

        Raises: InvalidInput where others may read the file, InvalidData where it is
            damaged, or missing beside a ledger or hashes.
        """
        if not self.file.exists():
            is_used = self.file.with_suffix(".jsonl").exists() or self._lists()
            # Another process draws it before either.
            if is_used and not self.file.exists():
                raise InvalidData(
                    f"expected the key of the ledger in {self.file}, got none: restore"
                    " it from a copy"
                )
            self._draw()
        mode = self.file.stat().st_mode & 0o777
        if mode & 0o077:
            raise InvalidInput(
                f"expected {self.file} to be readable by its owner only, got mode"
                f" {mode:o}"
            )
        key = self.file.read_bytes()
        if len(key) != _KEY_BYTES:
            raise InvalidData(
                f"expected {_KEY_BYTES} bytes in {self.file}, got {len(key)}: restore"
                " it from a copy"
            )
        return key

    def _draw(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.file.with_name(f".{secrets.token_hex(8)}")
        write_bytes(fresh, secrets.token_bytes(_KEY_BYTES))
        try:
            with suppress(FileExistsError):  # where another process came first
                os.link(fresh, self.file)
        finally:
            fresh.unlink()
        flush(self.file.parent)

    def register(self, fingerprint: str, records: Iterable[bytes]) -> None:
        """Store the hashes of a data set's records, whose fingerprint identifies its
        content: a registered one is unchanged.
        """
        name = self.name_of(fingerprint)
        if name not in self._files():
            hashes = self._hashes(records)
            self.folder.mkdir(parents=True, exist_ok=True)
            head = self.tag() + np.array(len(hashes), _HASH).tobytes()
            write_bytes(self.folder / f"{name}{_SUFFIX}", head + hashes.tobytes())

    def _hashes(self, records: Iterable[bytes]) -> NDArray[np.uint64]:
        """Sorted hashes of the distinct records."""
        key = self.read()
        found = (
            hashlib.blake2b(b"".join(text.split()), digest_size=8, key=key).digest()
            for text in records
        )
        return np.unique(np.frombuffer(b"".join(found), _HASH))

    def shares(self, name: str, records: Iterable[bytes]) -> bool:
        """Whether a registered data set has any of the records, which need not be
        registered.

        Raises: InvalidData where its hashes are lost.
        """
        files = self._files()
        if self.name_of(name) not in files:
            raise InvalidData(
                "expected the hashes of an exported encoder's training records in"
                f" {self.folder}, got none: restore the folder from a copy"
            )
        mine = self._hashes(records)
        return bool(np.isin(mine, self._load(files[self.name_of(name)])).any())

    def is_registered(self, fingerprint: str) -> bool:
        """Whether the hashes of its records are stored."""
        return self.name_of(fingerprint) in self._files()

    def overlaps(self, fingerprint: str) -> dict[str, int]:
        """Names of the other data sets that share records with a registered one, and
        how many.
        """
        name, files = self.name_of(fingerprint), self._files()
        if name not in files:
            return {}
        if (key := (name, *files)) not in self._shared:  # a list is never changed
            mine, found = self._load(files[name]), {}
            for other in sorted(files.keys() - {name}):
                shared = np.intersect1d(
                    mine, self._load(files[other]), assume_unique=True
                )
                if len(shared):
                    found[other] = len(shared)
            self._shared[key] = found
        return dict(self._shared[key])

    def _lists(self) -> list[Path]:
        return sorted(self.folder.glob(f"[!.]*{_SUFFIX}"))

    def _files(self) -> dict[str, Path]:
        """The list of each data set by its name."""
        try:
            return {
                self.name_of(path.name.removesuffix(_SUFFIX)): path
                for path in self._lists()
            }
        except InvalidData:
            raise self._key_mismatch(self.folder) from None

    def _load(self, path: Path) -> NDArray[np.uint64]:
        """Sorted hashes of the distinct records."""
        content = path.read_bytes()
        found = np.frombuffer(content[16 : len(content) // 8 * 8], _HASH)
        is_ours = content[:16] == self.tag() and len(content) == 16 + 8 * len(found)
        if not is_ours or not len(found) or found[0] != len(found) - 1:
            raise self._key_mismatch(path)
        return found[1:]

    def _key_mismatch(self, place: Path) -> InvalidData:
        return InvalidData(
            f"expected hashes under the key {self.file} in {place}:"
            " restore the key or the file from a copy"
        )
