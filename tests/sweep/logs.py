"""Rewrites logs of ledgers and sweeps with right digests, as a forger would."""

import hashlib
import json

from sweep.store.sweeps import LOG

START = "0" * 32


def entries(path):
    """The entries of a log, without their digests."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        {k: v for k, v in row.items() if k not in ("digest", "previous")}
        for row in rows
    ]


def line(document):
    """A line with a right digest, of a JSON object or anything else."""
    body = document[1:]
    digest = hashlib.blake2b(body, digest_size=16).hexdigest().encode()
    return b'{"digest":"%b",%b\n' % (digest, body)


def chained(document, previous):
    """A line that follows the one with the digest `previous`."""
    return line(b'{"previous":"%b",%b' % (previous.encode(), document[1:]))


def write(path, documents):
    """A log of these documents, and its head."""
    content, previous = b"", START
    for document in documents:
        new = chained(document, previous)
        content, previous = content + new, new[11:43].decode()
    fresh = path.with_name("fresh")  # as a copy that is restored: another file
    fresh.write_bytes(content)
    fresh.replace(path)
    head = {"lines": f"{len(documents):020d}", "last": previous}
    path.with_suffix(".head").write_bytes(
        line(json.dumps(head, separators=(",", ":")).encode())
    )


def rewrite(path, change):
    """Change each entry of a log; None leaves it out."""
    changed = [found for entry in entries(path) if (found := change(entry)) is not None]
    write(path, [json.dumps(entry).encode() for entry in changed])


def rewrite_sweep(folder, kind, change):
    """Change each entry of one kind in the log of a sweep; None leaves it out."""
    rewrite(folder.path / LOG, lambda e: change(e) if e["entry"] == kind else e)
