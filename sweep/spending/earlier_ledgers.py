"""Ledgers of earlier code, rewritten as the log that is read today.

An old ledger has lines or releases of another form. Every entry is kept, and the old
file as `*.before`. Lists of record hashes lose those that depend on spaces; one that
has no others is left out, and its data set counts as unknown until it is trained on
again. A damaged ledger is refused and stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sweep.spending.home_key import HomeKey
from sweep.spending.ledger import ENTRY, Entry, Ledger
from sweep.store.chained_log import ChainedLog
from sweep.store.files import write_bytes
from trainables.errors import InvalidData, one_line


def carry_over(path: Path) -> int:
    """Carry a ledger over, while no sweep runs; returns the number of its entries.

    Raises: InvalidData for what is damaged.
    """
    try:
        return _carry_over(path)
    except (ValueError, LookupError, TypeError) as problem:
        raise InvalidData(
            f"expected a whole ledger of earlier code in {path}, got a damaged one"
            f" ({one_line(str(problem), characters=200)}): restore it from a copy"
        ) from None


def _carry_over(path: Path) -> int:
    is_logged = path.read_bytes().startswith(b'{"digest"')
    if is_logged:
        advice = "restore it from a copy"
        rows = ChainedLog(path, TypeAdapter(dict[str, Any]), advice=advice).read_new()
    else:
        rows = _old_entries(path)
    if not is_logged or any("phases" in fields["release"] for fields in rows):
        found = [
            ENTRY.validate_python({**fields, "release": _release(fields["release"])})
            for fields in rows
        ]
        fresh = path.with_name("carried.jsonl")
        _write(fresh, found)
        path.rename(f"{path}.before")
        for name in (".head", ".jsonl"):
            fresh.with_suffix(name).replace(path.with_suffix(name))
    key = HomeKey(path.with_suffix(".key"))
    for listed in (
        path.with_suffix(".records").glob("[!.]*.u64") if key.file.exists() else ()
    ):
        carry_hashes(listed, key)
    return len(Ledger(path).entries())


def _release(old: dict[str, Any]) -> dict[str, Any]:
    """A release whose kind of steps was one word for all of them."""
    if "kind" in old:
        return old
    if best := old.get("best_of"):
        law = {0.0: "logarithmic", 1.0: "geometric"}.get(
            float(best["shape"]), "poisson"
        )
        return {
            "kind": "best_of",
            "number": {"law": law, "mean": best["mean"]},
            "configurations": [_release(each) for each in best["configurations"]],
            "shown": [_release(each) for each in best.get("shown", ())],
        }
    about = {name: old[name] for name in ("neighboring_relation", "unit")}
    if old["unaccounted"]:
        return {"kind": "unaccounted", "reasons": old["unaccounted"], **about}
    rate = old["sample_rate"]
    step: dict[str, Any] = {"kind": "gaussian"}
    if old["sampling"] == "random_allocation":
        step = {"kind": "allocated", "steps": round(1 / rate)}
    elif rate < 1:
        step = {"kind": "sampled", "rate": rate}
    return {
        "kind": "training",
        "steps": [
            {**step, "sigma": sigma, "count": count} for sigma, count in old["phases"]
        ],
        "beside": [
            {"kind": "gaussian", "sigma": sigma, "count": count}
            for sigma, count in old.get("unsampled", ())
        ],
        **about,
    }


def carry_hashes(path: Path, key: HomeKey) -> None:
    """Carry the record hashes of a data set over."""
    content = path.read_bytes()
    purpose = b"record hashes, with and without spaces"
    if (
        content[:16]
        == hashlib.blake2b(purpose, digest_size=16, key=key.read()).digest()
    ):
        whole, joined = (
            int.from_bytes(content[low : low + 8], "little") for low in (16, 24)
        )
        if len(content) != 32 + 8 * (whole + joined):
            raise ValueError(f"expected whole hashes in {path}, got a part")
        if joined or not whole:
            size = joined.to_bytes(8, "little")
            write_bytes(path, key.tag() + size + content[32 + 8 * whole :])
        else:
            path.unlink()


def _old_entries(path: Path) -> list[dict[str, Any]]:
    """The entries of an old ledger, whose lines have a checksum, a length and the
    digest of all lines before.
    """
    digest, number, found, problem = hashlib.sha256(b"").hexdigest(), 0, [], ""
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        checksum, _, rest = line.partition(b" ")
        body = rest.partition(b" ")[2]
        fields = json.loads(body) if checksum == b"%08x" % zlib.crc32(body) else {}
        if fields.get("previous") != digest:
            problem = problem or f"line {number} damaged"
        elif "accepted" in fields:  # all before it, by the user
            problem = ""
        digest = hashlib.sha256(bytes.fromhex(digest) + line).hexdigest()
        if "release" in fields:
            found.append(fields)
    head = json.loads(path.with_suffix(".head").read_bytes().split(b" ", 2)[2])
    if int(head["lines"]) > number or (
        int(head["lines"]) == number and head["digest"] != digest
    ):
        problem = (
            problem or f"{number} lines of the {int(head['lines'])} that were written"
        )
    if problem:
        raise ValueError(f"expected whole lines in {path}, got {problem}")
    return found


def _write(path: Path, entries: Sequence[Entry]) -> None:
    for name in (".jsonl", ".head"):  # of an earlier try
        path.with_suffix(name).unlink(missing_ok=True)
    fresh = ChainedLog(path, ENTRY, advice="run it again")
    with fresh.alone():
        for entry in entries:
            fresh.read_new()
            fresh.append(entry)
    path.with_suffix(".lock").unlink()
