"""Rewrites logs of ledgers and sweeps with right digests, as a forger would."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sweep.store.sweeps import LOG, SweepFolder

START = "0" * 32


def entries(path: Path) -> list[dict[str, Any]]:
    """The entries of a log, without their digests."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in ("digest", "previous")} for row in rows]


def line(document: bytes) -> bytes:
    """A line with a right digest, of a JSON object or anything else."""
    body = document[1:]
    digest = hashlib.blake2b(body, digest_size=16).hexdigest().encode()
    return b'{"digest":"%b",%b\n' % (digest, body)


def chained(document: bytes, previous: str) -> bytes:
    """A line that follows the one with the digest `previous`."""
    return line(b'{"previous":"%b",%b' % (previous.encode(), document[1:]))


def write(path: Path, documents: list[bytes]) -> None:
    """A log of these documents, and its head."""
    content, previous = b"", START
    for document in documents:
        new = chained(document, previous)
        content, previous = content + new, new[11:43].decode()
    fresh = path.with_name("fresh")  # as a copy that is restored: another file
    fresh.write_bytes(content)
    fresh.replace(path)
    head = {"lines": f"{len(documents):020d}", "last": previous}
    path.with_suffix(".head").write_bytes(line(json.dumps(head, separators=(",", ":")).encode()))


def rewrite(path: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Change each entry of a log; None leaves it out."""
    changed = [found for entry in entries(path) if (found := change(entry)) is not None]
    write(path, [json.dumps(entry).encode() for entry in changed])


def rewrite_sweep(
    folder: SweepFolder, kind: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> None:
    """Change each entry of one kind in the log of a sweep; None leaves it out."""
    rewrite(folder.path / LOG, lambda e: change(e) if e["entry"] == kind else e)
