"""Rewrite the ledger and the sweeps of an old home as the logs that are read today. Run once, while
no sweep runs:

    python benchmarks/carry_home_over.py ~/.sweeps

An old ledger has lines of another form; an old sweep has its plan, its epochs and the states of
its trials in files of their own, or a log that lacks its space. Every entry of the ledger is kept;
it stays as `*.before`, and the files of a sweep are moved to its folder `before`. Lists of record
hashes lose those that depend on spaces; one that has no others is left out, and its data set counts
as unknown until it is trained on again. What is damaged
is refused and stays as it is; the rest is carried over when the script is run again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from sweep.results.privacy_cards import JSON
from sweep.spending.entries import ENTRY
from sweep.spending.home_key import HomeKey
from sweep.spending.ledger import FILE, Ledger
from sweep.store import manifest
from sweep.store.chained_log import ChainedLog
from sweep.store.entries import SWEEP_ENTRY
from sweep.store.files import read_json, write_bytes, write_json
from sweep.store.sweeps import LOG
from trainables.files import read_yaml
from trainables.system import locks

_OF_SWEEP = (
    *("sweep.json", "plan.json", "chosen.jsonl", "clock.json"),
    *("search_denied.json", "earlier_trials.json"),
)
_OF_TRIAL = (
    *("epochs.jsonl", "stopped.json", "result.json"),
    *("panel.json", "failed.json", "denied.json"),
)
_Entry = TypeVar("_Entry")


def carry_over(home: Path) -> int:
    """Carry a home over; returns the number of its ledger's entries.

    Raises: ValueError for what is damaged, or a sweep that runs.
    """
    count = carry_ledger(home / FILE) if (home / FILE).exists() else 0
    for place in sorted({path.parent for path in home.glob("[!.]*/sweep.json*")}):
        vault = place / "vault"
        if (vault / "ledger.jsonl").exists():
            carry_ledger(vault / "ledger.jsonl")
        if (vault / "draws").is_dir():
            selected = _read(vault / "selected.json")
            carry_sweep(vault / "draws", {} if selected is None else {"selected": selected})
            (vault / "selected.json").unlink(missing_ok=True)
        carry_sweep(place, {})
    return count


def carry_ledger(path: Path) -> int:
    """Carry a ledger over; returns the number of its entries."""
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
        fresh = _write(path.with_name("carried.jsonl"), ENTRY, found)
        path.rename(f"{path}.before")
        _rename(fresh, path)
    key = HomeKey(path.with_suffix(".key"))
    for listed in path.with_suffix(".records").glob("[!.]*.u64") if key.file.exists() else ():
        carry_hashes(listed, key)
    return len(Ledger(path).entries())


def _release(old: dict[str, Any]) -> dict[str, Any]:
    """A release whose kind of steps was one word for all of them."""
    if "kind" in old:
        return old
    if best := old.get("best_of"):
        law = {0.0: "logarithmic", 1.0: "geometric"}.get(float(best["shape"]), "poisson")
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
        "steps": [{**step, "sigma": sigma, "count": count} for sigma, count in old["phases"]],
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
    if content[:16] == hashlib.blake2b(purpose, digest_size=16, key=key.read()).digest():
        whole, joined = (int.from_bytes(content[low : low + 8], "little") for low in (16, 24))
        if len(content) != 32 + 8 * (whole + joined):
            raise ValueError(f"expected whole hashes in {path}, got a part")
        if joined or not whole:
            size = joined.to_bytes(8, "little")
            write_bytes(path, key.tag() + size + content[32 + 8 * whole :])
        else:
            path.unlink()


def carry_sweep(place: Path, facts: dict[str, Any]) -> None:
    """Carry the folder of a sweep over; `facts` are noted in its log."""
    if locks.is_held(place / "lock"):
        raise ValueError(f"expected no sweep that runs, got {place}")
    is_logged = (place / LOG).exists()
    if rows := _with_space(place) if is_logged else list(_entries_of(place, facts)):
        found = [SWEEP_ENTRY.validate_python(fields) for fields in rows]
        fresh = _write(place / "carried.jsonl", SWEEP_ENTRY, found)
        for listed in place.glob("trials/*/manifest.json"):
            files = read_json(listed)["files"]
            kept = {name: mark for name, mark in files.items() if name not in _OF_TRIAL}
            write_json(listed, {"files": kept})
        if is_logged:
            (place / "before").mkdir(mode=0o700, exist_ok=True)
            shutil.copy(place / LOG, place / "before")
        _rename(fresh, place / LOG)
    old = [place / name for name in _OF_SWEEP]
    old += [path for name in _OF_TRIAL for path in place.glob(f"trials/*/{name}")]
    for path in old:
        if path.exists():
            target = place / "before" / path.relative_to(place)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.rename(target)


def _with_space(place: Path) -> list[dict[str, Any]]:
    """The entries of a log whose plans lack their space, with it; none for any other log."""
    log = ChainedLog(place / LOG, TypeAdapter(dict[str, Any]), advice="restore it from a copy")
    found = log.read_new()
    plans = [entry for entry in found if entry["entry"] == "planned" and "space" not in entry]
    for entry in plans:
        entry["space"] = _space_in(place)
    return found if plans else []


def _space_in(place: Path) -> Any:
    """The space of an old sweep, whose file ends with the digest of its lines."""
    path = place / "space.yaml"
    body, _, digest = path.read_text(encoding="utf-8").rpartition("# sha256 ")
    if hashlib.sha256(body.encode()).hexdigest() != digest.strip():
        raise ValueError(f"expected {path} as it was written, got another")
    return read_yaml(path, max_bytes=1 << 24)


def _entries_of(place: Path, facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The entries of an old sweep's log."""
    yield {"entry": "made", "about": read_json(place / "sweep.json")}
    plan, space = read_json(place / "plan.json"), _space_in(place)
    yield {"entry": "planned", "plan": plan, "space": space}
    for choice in _lines(place / "chosen.jsonl"):
        yield {"entry": "chosen", **choice}
    if facts:
        yield {"entry": "noted", "facts": facts}
    if (earlier := _read(place / "earlier_trials.json")) is not None:
        yield {"entry": "earlier", "records": [{**each, "privacy": None} for each in earlier]}
    for trial in sorted(place.glob("trials/[!.]*")):
        for fields in _of_trial(trial):
            yield {**fields, "trial": trial.name}
    if (denied := _read(place / "search_denied.json")) is not None:
        yield {"entry": "search_denied", **denied}
    if (clock := _read(place / "clock.json")) is not None:
        yield {"entry": "ran", **clock}


def _of_trial(place: Path) -> Iterator[dict[str, Any]]:
    """The entries of an old trial, whose manifest its files must match."""
    marks = (_read(place / manifest.FILE) or {"files": {}})["files"]
    for name in _OF_TRIAL:
        content = (place / name).read_bytes() if (place / name).exists() else b""
        if name in marks and hashlib.sha256(content).hexdigest() != marks[name]["sha256"]:
            raise ValueError(f"expected {place / name} as its manifest has it, got another")
    if (place / "config.yaml").exists():
        yield {"entry": "begun"}
    for row in _lines(place / "epochs.jsonl"):
        yield {"entry": "epoch", "row": row}
    if (stopped := _read(place / "stopped.json")) is not None:
        yield {"entry": "ended", "result": {**stopped, "privacy": None}}
        yield {"entry": "reopened"}
    for name, entry in (("failed.json", "failed"), ("denied.json", "denied")):
        if (fields := _read(place / name)) is not None:
            yield {"entry": entry, **fields}
    if (result := _read(place / "result.json")) is not None:
        # An old result had what its card was made of.
        yield {"entry": "ended", "result": {**result, "privacy": _read(place / JSON)}}
    if (panel := _read(place / "panel.json")) is not None:
        yield {"entry": "compared", "panel": panel}


def _old_entries(path: Path) -> list[dict[str, Any]]:
    """The entries of an old ledger, whose lines have a checksum, a length and the digest of all
    lines before.
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
    if int(head["lines"]) > number or (int(head["lines"]) == number and head["digest"] != digest):
        problem = problem or f"{number} lines of the {int(head['lines'])} that were written"
    if problem:
        raise ValueError(f"expected whole lines in {path}, got {problem}")
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    """The objects of an old file of JSON lines; a last line that a crash has cut is none."""
    content = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in content.split(b"\n")[:-1]]


def _read(path: Path) -> Any:
    """What an old JSON file has; None for no file."""
    return read_json(path) if path.exists() else None


def _write(path: Path, kind: TypeAdapter[_Entry], entries: Sequence[_Entry]) -> Path:
    for name in (".jsonl", ".head"):  # of an earlier try
        path.with_suffix(name).unlink(missing_ok=True)
    fresh = ChainedLog(path, kind, advice="run it again")
    with fresh.alone():
        for entry in entries:
            fresh.read_new()
            fresh.append(entry)
    return path


def _rename(fresh: Path, path: Path) -> None:
    for name in (".head", ".jsonl"):
        fresh.with_suffix(name).replace(path.with_suffix(name))
    fresh.with_suffix(".lock").unlink()


if __name__ == "__main__":
    count = carry_over(Path(sys.argv[1]).expanduser())
    print(f"{count} entries of the ledger carried over, and all sweeps")
