"""The secret key of a home, and the names that data sets have under it.

A data set's fingerprint is a plain hash of private records, so an adversary who knows all of them
but one can test candidates for the last. Files therefore contain the fingerprint's HMAC under a key
that only its owner may read and that never leaves the home.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path

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
