"""Names of data sets reveal none, and every shared record between data sets is
found.
"""

import hmac
import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.spending.home_key import HomeKey
from tests.refusals import refused
from trainables.errors import InvalidData


@pytest.fixture
def key(tmp_path):
    return HomeKey(tmp_path / "ledger.key")


def test_a_name_is_the_same_each_time_and_another_under_another_key(key, tmp_path):
    """So that two homes cannot be compared, and no fingerprint can be tested without
    the key.
    """
    name = key.name_of("abc")
    assert re.fullmatch(r"[0-9a-f]{64}\.[0-9a-f]{32}", name)
    assert HomeKey(key.file).name_of("abc") == name
    assert hmac.new(key.read(), b"data set\0abc", "sha256").hexdigest() == name[:64]
    assert key.name_of(name) == name, "a name is its own"
    assert key.name_of("abd") != name
    other = HomeKey(tmp_path / "other.key")
    assert other.name_of("abc").split(".")[0] != name.split(".")[0]
    assert other.tag() != key.tag()


def test_the_key_is_drawn_once_and_its_owners_alone(key):
    secret = key.read()
    assert len(set(secret)) > 8
    assert key.file.stat().st_mode & 0o777 == 0o600
    assert HomeKey(key.file).read() == secret
    assert [path.name for path in key.file.parent.iterdir()] == ["ledger.key"]
    assert secret not in key.tag() + key.name_of("abc").encode()


def test_a_key_is_on_disk_before_anything_is_named_by_it(key, monkeypatch):
    """Its bytes and its name: a ledger without its key is lost."""
    synced = set()

    def fsync(descriptor):
        synced.add((os.fstat(descriptor).st_ino, key.file.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    key.name_of("abc")
    assert {
        (key.file.stat().st_ino, False),
        (key.file.parent.stat().st_ino, True),
    } <= synced


def test_a_process_that_comes_second_takes_the_key_of_the_first(key):
    """It has seen no file, and drawn a key of its own meanwhile."""
    first = key.read()
    HomeKey(key.file)._draw()
    assert key.read() == first
    assert [path.name for path in key.file.parent.iterdir()] == ["ledger.key"]


@pytest.mark.parametrize("content", [b"", b"short", 33 * b"x"])
def test_a_damaged_key_is_no_new_one(key, content):
    key.read()
    key.file.write_bytes(content)
    with refused(
        f"expected 32 bytes in .*, got {len(content)}: restore it", InvalidData
    ):
        HomeKey(key.file).read()
    assert key.file.read_bytes() == content


@pytest.mark.parametrize("text", ["", "../x", ".hidden", "a/b", "a b", "ä", "x" * 129])
def test_what_is_no_fingerprint_names_no_file(key, text):
    with refused("expected a data set's fingerprint"):
        key.name_of(text)


_RECORDS = st.sets(st.integers(0, 30).map(lambda n: b"record %d" % n), max_size=12)


@settings(max_examples=25)
@given(sets=st.lists(_RECORDS, min_size=1, max_size=3), doubled=st.booleans())
def test_overlaps_are_exactly_the_shared_records(tmp_path_factory, sets, doubled):
    """In both directions, however often a data set has each, and also in another
    process.
    """
    key = HomeKey(tmp_path_factory.mktemp("hashes") / "ledger.key")
    for number, records in enumerate(sets):
        key.register(f"d{number}", sorted(records) * (2 if doubled else 1))
    again = HomeKey(key.file)
    for one, records in enumerate(sets):
        expected = {
            key.name_of(f"d{other}"): len(records & theirs)
            for other, theirs in enumerate(sets)
            if other != one and records & theirs
        }
        assert key.overlaps(f"d{one}") == again.overlaps(f"d{one}") == expected


def test_records_that_were_cut_into_other_tokens_are_the_same(key):
    """`sweep init --tokenize punctuation` makes other tokens of the same text."""
    key.register("space", [b"play it, maria!", b"stop", b"go on"])
    key.register("punctuation", [b"play it , maria !", b"stop"])
    assert key.overlaps("space") == {key.name_of("punctuation"): 2}
    assert key.overlaps("punctuation") == {key.name_of("space"): 2}


def test_a_later_data_set_is_seen_by_one_that_was_asked_before(key):
    key.register("a", [b"x", b"y"])
    assert key.overlaps("a") == {}
    HomeKey(key.file).register("b", [b"y", b"z"])
    assert key.overlaps("a") == {key.name_of("b"): 1}
    key.overlaps("a").clear()
    assert key.overlaps("a") == {key.name_of("b"): 1}, "an answer is the caller's own"


def test_a_registered_data_set_is_not_read_again(key):
    """A million records are hashed once."""

    def never():
        raise AssertionError("read again")
        yield

    assert not key.is_registered("a")
    key.register("a", [b"x", b"y"])
    assert key.is_registered("a")
    key.register("a", never())
    assert key.overlaps("unknown") == {}


@pytest.mark.parametrize(
    "damage", ["cut", "cut by a hash", "longer", "empty", "of another key"]
)
def test_a_damaged_list_is_refused_and_counts_as_no_small_one(key, tmp_path, damage):
    key.register("a", [b"x", b"y"])
    key.register("b", [b"y"])
    path = key.folder / f"{key.name_of('b')}.u64"
    content = path.read_bytes()
    kept = {"cut": -3, "cut by a hash": -8, "empty": 16}
    other = content + b"x" if damage == "longer" else bytes(16) + content[16:]
    path.write_bytes(content[: kept[damage]] if damage in kept else other)
    with refused(r"restore the key or the file from a copy", InvalidData):
        HomeKey(key.file).overlaps("a")
