"""A home of before the logs is carried over whole: its ledgers, sweeps and vaults."""

import hashlib
import json
import zlib
from typing import Any

import pytest
from pydantic import TypeAdapter

from benchmarks.carry_home_over import carry_over
from sweep.planning import ledger_check
from sweep.search import private_selection
from sweep.spending.ledger import FILE, Ledger
from sweep.store import manifest
from sweep.store import sweeps as store
from sweep.store.chained_log import ChainedLog
from sweep.store.files import read_json, write_json
from sweep.store.sweeps import LOG, SweepFolder, Vault
from tests.sweep.logs import entries, rewrite_sweep
from tests.sweep.sweeps import settings_in
from tests.sweep.untracked import run_untracked
from trainables.errors import InvalidData
from trainables.guarantee.releases import (
    Allocated,
    BestOf,
    Gaussian,
    Number,
    Sampled,
    Training,
    Unaccounted,
)

_SELECTION = {
    "name": "drawn",
    "variants": [],
    "base": {"engine": "dp_sgd"},
    "axes": {"training.learning_rate": [0.1, 0.2, 0.3]},
    "search": {
        "strategy": "private_selection",
        "num_trials": {"law": "poisson", "mean": 3},
        "target_epsilon": 8,
    },
}


def old_ledger(path):
    """Write a ledger as it was before: a checksum, a length, the digest of all lines before."""
    content, digest, found = b"", hashlib.sha256(b"").hexdigest(), entries(path)
    for entry in found:
        line = _old_line({**entry, "previous": digest})
        digest = hashlib.sha256(bytes.fromhex(digest) + line).hexdigest()
        content += line + b"\n"
    path.write_bytes(content + b"torn")
    path.with_suffix(".head").write_bytes(
        _old_line({"lines": f"{len(found):020d}", "digest": digest}) + b"\n"
    )


def old_hashes(home):
    """Write the record hashes as they were before: those of whole records, too."""
    key = (home / "ledger.key").read_bytes()
    purpose = b"record hashes, with and without spaces"
    head = hashlib.blake2b(purpose, digest_size=16, key=key).digest()
    for path in home.glob("ledger.records/*.u64"):
        content = path.read_bytes()
        whole = content[24:32] * 3
        size = (3).to_bytes(8, "little")
        path.write_bytes(head + size + content[16:24] + whole + content[24:])


def seal(place):
    """End the space's file with the digest of its lines, as it did before."""
    text = (place / "space.yaml").read_text()
    digest = hashlib.sha256(text.encode()).hexdigest()
    (place / "space.yaml").write_text(f"{text}# sha256 {digest}\n")


def _old_line(fields):
    body = json.dumps(fields).encode()
    return b"%08x %d %b" % (zlib.crc32(body), len(body), body)


def old_sweep(place):
    """Write a sweep as it was before: a file for each thing."""
    about = {}
    files = {}
    seal(place)
    for entry in entries(place / LOG):
        trial, kind = f"trials/{entry.get('trial')}", entry["entry"]
        if kind == "made":
            about |= entry["about"]
        elif kind == "noted":
            selected = entry["facts"].pop("selected", None)
            about |= entry["facts"]
            if selected is not None:
                write_json(place.parent / "selected.json", selected)
        elif kind == "planned":
            files["plan.json"] = entry["plan"]
        elif kind == "chosen":
            _add_row(place / "chosen.jsonl", {"trials": entry["trials"]})
        elif kind == "epoch":
            _add_row(place / trial / "epochs.jsonl", entry["row"])
        elif kind == "ran":
            files["clock.json"] = {"seconds": entry["seconds"]}
        elif kind in ("ended", "released"):
            files[f"{trial}/result.json"] = entry["result"]
            for row in entry.get("epochs", ()):
                _add_row(place / trial / "epochs.jsonl", row)
        elif kind == "compared":
            files[f"{trial}/panel.json"] = entry["panel"]
    for name, content in {**files, "sweep.json": about}.items():
        write_json(place / name, content)
    for suffix in ("jsonl", "head", "lock"):
        (place / f"sweep.{suffix}").unlink()
    for result in place.glob("trials/*/result.json"):
        panel = result.parent / "panel.json"
        if panel.exists():  # it came after the manifest
            panel.rename(place / "panel")
        manifest.write(result.parent)
        if (place / "panel").exists():
            (place / "panel").rename(panel)


def _add_row(path, row):
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with a sweep and a private selection, as it is today."""
    monkeypatch.setattr(private_selection, "draw_number", lambda law, random: 3)
    run_untracked(tmp_path)
    run_untracked(tmp_path, **_SELECTION)
    return settings_in(tmp_path).home


def seen(home):
    """All that can be read in a home."""
    found = {"ledger": Ledger(home / FILE).entries()}
    found["hashes"] = sorted(path.read_bytes() for path in home.glob("ledger.records/*.u64"))
    for name in store.names(home):
        vault = Vault(folder := store.open_sweep(home, name))
        found[f"{name}: vault"] = vault.selection()
        if vault.is_sealed:
            found[f"{name}: releases"] = Ledger(vault.ledger_file).entries()
        for each in (folder, *([vault.draws] if vault.is_sealed else [])):
            about = {k: v for k, v in each.about().items() if k != "selected"}
            trials = [trial.id for trial in each.plan().trials]
            found[f"{name}: {each.name}"] = (
                *(each.records(), about, each.space(), each.state().seconds_run),
                *([each.epochs(n), each.state().trial(n).panel, each.result(n)] for n in trials),
                [manifest.differences(each.trial_folder(n)) for n in trials],
            )
    return found


def make_old(home):
    for name in store.names(home):
        vault = Vault(SweepFolder(home / name))
        if vault.is_sealed:
            old_ledger(vault.ledger_file)
            old_sweep(vault.draws.path)
        old_sweep(home / name)
    old_ledger(home / FILE)
    old_hashes(home)


def test_an_old_home_is_carried_over_whole(home, tmp_path):
    before = seen(home)
    assert len(before) == 8
    assert before["hashes"]
    make_old(home)
    listed = next(home.glob("toy/trials/*/manifest.json"))
    assert "result.json" in read_json(listed)["files"]
    assert store.names(home) == []
    assert carry_over(home) == len(before["ledger"]) > 5
    assert seen(home) == before
    assert ledger_check.check(settings_in(tmp_path)) == []
    assert carry_over(home) == len(before["ledger"]), "a second time changes nothing"
    assert seen(home) == before
    assert (home / "ledger.jsonl.before").exists()
    assert (home / "toy" / "before" / "plan.json").exists()
    assert not list((home / "toy").glob("trials/*/result.json"))
    assert "result.json" not in read_json(listed)["files"]


def test_a_log_gets_the_space_that_it_lacks(home):
    before = seen(home)
    for folder in (SweepFolder(home / "toy"), Vault(SweepFolder(home / "drawn")).draws):
        rewrite_sweep(folder, "planned", lambda e: {k: v for k, v in e.items() if k != "space"})
        seal(folder.path)
    with pytest.raises(InvalidData, match=r"planned\.space"):
        SweepFolder(home / "toy").records()
    carry_over(home)
    assert seen(home) == before
    assert not list(home.glob("drawn/before")), "it had its space"
    content = [path.read_bytes() for path in home.rglob("sweep.jsonl")]
    carry_over(home)
    assert [path.read_bytes() for path in home.rglob("sweep.jsonl")] == content


@pytest.mark.parametrize(
    "damage",
    [
        lambda home: _replace(home / FILE, b'"epochs"', b'"epuchs"'),
        lambda home: _drop_line(home / FILE, 1),
        lambda home: _drop_line(home / FILE, -2),
        lambda home: _replace(next(home.glob("toy/trials/*/result.json")), b"0.", b"1."),
        lambda home: next(home.glob("toy/trials/*/epochs.jsonl")).unlink(),
        lambda home: _replace(home / "toy" / "space.yaml", b"epochs: 3", b"epochs: 4"),
    ],
    ids=["a byte", "a line", "the last line", "a result", "epochs", "the space"],
)
def test_what_is_damaged_is_refused_and_stays(home, damage):
    make_old(home)
    damage(home)
    before = (home / FILE).read_bytes()
    with pytest.raises(ValueError, match=r"^expected "):
        carry_over(home)
    assert before in [path.read_bytes() for path in home.glob(f"{FILE}*")]


def test_a_sweep_that_runs_is_refused(home):
    make_old(home)
    (home / "toy" / LOG).touch()  # so that it can be locked
    folder = SweepFolder(home / "toy")
    with folder._lock(), pytest.raises(ValueError, match="expected no sweep that runs"):
        carry_over(home)


def _replace(path, old, new):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


def _drop_line(path, number):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if line is not lines[number]))


OLD = {"neighboring_relation": "add_or_remove_one", "unit": "group", "unaccounted": []}
SAMPLED = {**OLD, "phases": [[1.0, 5]], "sampling": "poisson", "sample_rate": 0.25}
KIND = {"neighboring_relation": "add_or_remove_one", "unit": "group"}


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        (SAMPLED, Training(steps=(Sampled(sigma=1.0, rate=0.25, count=5),), **KIND)),
        (
            {**SAMPLED, "sample_rate": 1.0, "unsampled": [[2.0, 1]]},
            Training(steps=(Gaussian(sigma=1.0, count=5),), beside=(Gaussian(sigma=2.0),), **KIND),
        ),
        (
            {**SAMPLED, "sampling": "random_allocation"},
            Training(steps=(Allocated(sigma=1.0, steps=4, count=5),), **KIND),
        ),
        ({**SAMPLED, "unaccounted": ["why"]}, Unaccounted(reasons=("why",), **KIND)),
        (
            {
                **OLD,
                "phases": [[0, 1]],
                "best_of": {"mean": 3.0, "shape": "inf", "configurations": [SAMPLED]},
            },
            BestOf(
                number=Number(law="poisson", mean=3.0),
                configurations=(Training(steps=(Sampled(sigma=1.0, rate=0.25, count=5),), **KIND),),
            ),
        ),
    ],
)
def test_a_release_of_before_is_the_same_release(old, expected, tmp_path):
    fields = {"dataset": "d", "sweep": "s@1", "trial": "t", "attempt": 1, "first_epoch": 0}
    entry = {**fields, "epochs": 1, "delta": 1e-5, "release": old}
    log = ChainedLog(tmp_path / FILE, TypeAdapter(dict[str, Any]), advice="")
    with log.alone():
        log.append(entry)
    assert carry_over(tmp_path) == 1
    (found,) = Ledger(tmp_path / FILE).entries()
    assert found.release == expected
