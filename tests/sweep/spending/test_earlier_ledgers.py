import hashlib
import json
import zlib
from typing import Any

import pytest
from pydantic import TypeAdapter

from sweep.planning import ledger_check
from sweep.spending.earlier_ledgers import carry_over
from sweep.spending.ledger import FILE, Ledger
from sweep.store.chained_log import ChainedLog
from tests.sweep.logs import entries
from tests.sweep.sweeps import settings_in
from tests.sweep.untracked import run_untracked
from trainables.dp.accounting.releases import (
    Allocated,
    BestOf,
    Gaussian,
    Number,
    Sampled,
    Training,
    Unaccounted,
)
from trainables.errors import InvalidData


def old_ledger(path):
    """Write a ledger as it was before: a checksum, a length, the digest of all lines
    before.
    """
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
        size, whole = (3).to_bytes(8, "little"), content[24:32] * 3
        path.write_bytes(head + size + content[16:24] + whole + content[24:])


def _old_line(fields):
    body = json.dumps(fields).encode()
    return b"%08x %d %b" % (zlib.crc32(body), len(body), body)


@pytest.fixture
def ledger(tmp_path):
    run_untracked(tmp_path)
    return settings_in(tmp_path).home / FILE


def seen(ledger):
    hashes = sorted(
        path.read_bytes() for path in ledger.with_suffix(".records").glob("*.u64")
    )
    return Ledger(ledger).entries(), hashes


def test_an_old_ledger_is_carried_over_whole(ledger, tmp_path):
    before = seen(ledger)
    assert before[1]
    old_ledger(ledger)
    old_hashes(ledger.parent)
    for _ in range(2):  # a second time changes nothing
        assert carry_over(ledger) == len(before[0]) > 2
        assert seen(ledger) == before
    assert ledger_check.check(settings_in(tmp_path)) == []
    assert ledger.with_name("ledger.jsonl.before").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [lines[0].replace(b'"epochs"', b'"epuchs"'), *lines[1:]],
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [*lines[:-2], lines[-1]],
    ],
    ids=["a byte", "a line", "the last line"],
)
def test_what_is_damaged_is_refused_and_stays(ledger, damage):
    old_ledger(ledger)
    before = b"".join(damage(ledger.read_bytes().splitlines(keepends=True)))
    ledger.write_bytes(before)
    with pytest.raises(InvalidData, match=r"^expected "):
        carry_over(ledger)
    assert ledger.read_bytes() == before


OLD = {"neighboring_relation": "add_or_remove_one", "unit": "group", "unaccounted": []}
SAMPLED = {**OLD, "phases": [[1.0, 5]], "sampling": "poisson", "sample_rate": 0.25}
KIND = {"neighboring_relation": "add_or_remove_one", "unit": "group"}
SAME = Training(steps=(Sampled(sigma=1.0, rate=0.25, count=5),), **KIND)


RELEASES = [
    (SAMPLED, SAME),
    (
        {**SAMPLED, "sample_rate": 1.0, "unsampled": [[2.0, 1]]},
        Training(
            steps=(Gaussian(sigma=1.0, count=5),), beside=(Gaussian(sigma=2.0),), **KIND
        ),
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
        BestOf(number=Number(law="poisson", mean=3.0), configurations=(SAME,)),
    ),
]


def test_a_release_of_before_is_the_same_release(tmp_path):
    fields = {
        "dataset": "d",
        "sweep": "s@1",
        "attempt": 1,
        "first_epoch": 0,
        "epochs": 1,
    }
    log = ChainedLog(tmp_path / FILE, TypeAdapter(dict[str, Any]), advice="")
    with log.alone():
        for number, (old, _) in enumerate(RELEASES):
            log.read_new()
            log.append({**fields, "trial": str(number), "delta": 1e-5, "release": old})
    assert carry_over(tmp_path / FILE) == len(RELEASES)
    found = [entry.release for entry in Ledger(tmp_path / FILE).entries()]
    assert found == [expected for _, expected in RELEASES]
