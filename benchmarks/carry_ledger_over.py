"""Rewrite an old ledger in the form that is read today. Run once, while no sweep runs:

    python benchmarks/carry_ledger_over.py ~/.sweeps/ledger.jsonl

Every entry is kept, with the digest of the line before it, its data set's name under the home's key
and the unit "couple" for exchanged programs of pairs. The log of before stays as `*.before`.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sweep.spending.entries import entry_from
from sweep.spending.home_key import HomeKey
from sweep.spending.ledger import Ledger
from sweep.spending.record_hashes import PURPOSE
from sweep.store.chained_log import ChainedLog
from trainables import catalogue


def carry_over(path: Path) -> int:
    """Rewrite the ledger at `path`; returns the number of its entries. A damaged one is refused."""
    key = HomeKey(path.with_suffix(".key"))
    old = [fields for fields in _lines(path) if "accepted" not in fields]
    fresh = ChainedLog(path.with_name("carried.jsonl"))
    with fresh.alone():
        for fields in old:
            fresh.append(_today(fields, key))
    path.rename(f"{path}.before")
    for name in (".head", ".jsonl"):
        fresh.path.with_suffix(name).replace(path.with_suffix(name))
    fresh.path.with_suffix(".lock").unlink()
    for listed in path.with_suffix(".records").glob("[!.]*.u64"):
        _carry_list(listed, key)
    return len(Ledger(path).entries())


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The records of an old log, whose first lines may have no digest of those before."""
    digest, number = hashlib.sha256(b"").hexdigest(), 0
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        checksum, _, body = line.split(b" ", 2)
        fields = json.loads(body) if checksum == b"%08x" % zlib.crc32(body) else {"previous": ""}
        if fields.get("previous", digest) != digest:
            raise ValueError(f"expected whole lines in {path}, got line {number} damaged")
        digest = hashlib.sha256(bytes.fromhex(digest) + line).hexdigest()
        yield {"previous": "", **fields}
    head = path.with_suffix(".head")
    if head.exists() and int(json.loads(head.read_bytes().split(b" ", 2)[2])["lines"]) > number:
        raise ValueError(f"expected the lines that {head} counts in {path}, got {number}")


def _today(fields: dict[str, Any], key: HomeKey) -> dict[str, Any]:
    """The fields of an entry as they are written today."""
    release, pairs = fields["release"], catalogue.names("datasets", kind="pairs")
    if release["unit"] == "group" and fields["dataset_name"] in pairs:
        release["unit"] = "couple"
    fields["dataset"] = key.name_of(fields["dataset"])
    del fields["previous"]
    return entry_from(fields).to_dict()


def _carry_list(path: Path, key: HomeKey) -> None:
    content = path.read_bytes()
    if content.startswith(key.tag()):  # hashes of whole records alone
        sizes = np.array([len(content) // 8 - 2, 0], "<u8").tobytes()
        path.write_bytes(key.tag(PURPOSE) + sizes + content[16:])
    path.rename(path.with_name(f"{key.name_of(path.name.removesuffix('.u64'))}.u64"))


if __name__ == "__main__":
    print(f"{carry_over(Path(sys.argv[1]).expanduser())} entries carried over")
