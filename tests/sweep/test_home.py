"""A home that lasts: in one archive and back, checked file by file, and brought to
today's form.
"""

import gzip
import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from sweep.planning import home_check
from sweep.spending.ledger import FILE, Ledger
from sweep.store import backup, data_sets
from sweep.store import sweeps as store
from tests.refusals import refused
from tests.sweep import lost_state
from tests.sweep.json_schemas import checked
from tests.sweep.lost_state import DAMAGES, FAILED, REFUSED, TABLE, by_name
from tests.sweep.sweeps import medium_grids, settings_in
from trainables.errors import InvalidData

EARLIER = Path(__file__).with_name("home_of_0288406a.tar.xz")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("homes")
    with medium_grids():
        for name in ("a", "b"):
            lost_state.build(folder / name)
    return folder


@pytest.fixture
def home(built, monkeypatch):
    """A home with its data, and no file changed."""
    shutil.rmtree(built / "now", ignore_errors=True)
    shutil.copytree(built / "a" / "home", built / "now")
    monkeypatch.setenv("SWEEP_HOME", str(built / "now"))
    monkeypatch.setenv("SWEEP_DATA_DIR", str(built / "a"))
    monkeypatch.setenv("SWEEP_TRACKING", "none")
    return built / "now"


def kept(home):
    """What a backup is to have: everything but caches and locks."""
    return {
        path.relative_to(home).as_posix(): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file()
        and not path.name.endswith("lock")
        and path.relative_to(home).parts[0] != "cache"
        and "vault/cache" not in path.as_posix()
    }


def problems(home, data):
    settings = settings_in(data)
    data_sets.open_data.cache_clear()  # as in a process of its own
    changed = {"home": home, "cache_dir": home / "cache"}
    parts = home_check.check(type(settings)(**{**vars(settings), **changed}))
    return [f"{part.name}: {part.problem}" for part in parts if part.problem]


def test_a_backup_is_restored_byte_by_byte_and_private(
    home, tmp_path, monkeypatch, line
):
    before, spent = kept(home), line.says("ledger", "--json")
    archive = tmp_path / "home.tar.gz"
    made = line.document("home backup", archive)
    assert (made["sweeps"], made["files"]) == (3, len(before))
    assert archive.stat().st_mode & 0o777 == 0o600
    again = tmp_path / "again" / "home"
    monkeypatch.setenv("SWEEP_HOME", str(again))
    facts = line.document("home restore", archive)
    assert "What was spent after" in facts["warning"]
    assert kept(again) == before
    modes = {path.stat().st_mode & 0o777 for path in again.rglob("*")}
    assert modes == {0o700, 0o600}
    assert again.stat().st_mode & 0o777 == 0o700
    assert line.says("ledger", "--json") == spent
    parts = line.document("home check")["parts"]
    assert parts
    assert not any(part["problem"] for part in parts)
    for words in (("home", "restore", archive), ("home", "backup", archive)):
        assert "expected a" in line.refused(*words)


def test_a_restored_home_goes_on(home, tmp_path, monkeypatch, line, toy_trials):
    archive = tmp_path / "home.tar.gz"
    backup.back_up(home, archive)
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "again"))
    assert "no command can see" in line.says("home", "restore", archive)
    trials = json.loads(line.says("resume", "stopped", "--json"))["trials"]
    assert {trial["status"] for trial in trials} == {"done"}


def test_what_a_backup_refuses(home, tmp_path):
    folder = store.open_sweep(home, "done")
    with folder.hold_lock(), refused("sweep done is running"):
        backup.back_up(home, tmp_path / "a.tar.gz")
    with refused("outside of the home"):
        backup.back_up(home, home / "a.tar.gz")
    with refused("expected a home with a sweep"):
        backup.back_up(tmp_path / "none", tmp_path / "a.tar.gz")
    (home / "linked").symlink_to(home / "done")
    with refused("got the link linked"):
        backup.back_up(home, tmp_path / "a.tar.gz")
    assert not list(tmp_path.iterdir())


def repacked(archive, to, change):
    """The archive with its list and its members changed."""
    with tarfile.open(archive) as source, tarfile.open(to, "w:gz") as target:
        members = [
            (each, source.extractfile(each).read()) for each in source.getmembers()
        ]
        listed = json.loads(members[0][1])
        for info, content in change(listed, members):
            text = json.dumps(listed).encode() if info is members[0][0] else content
            info.size = len(text) if info.isreg() else 0
            target.addfile(info, io.BytesIO(text))


def renamed(name):
    """The ledger under another name, in the list as well."""

    def change(listed, members):
        listed["files"][name] = listed["files"].pop(FILE)
        for info, _ in members:
            info.name = name if info.name == FILE else info.name
        return members

    return change


def newer(listed, members):
    listed["version"] = 2
    return members


def without_one(listed, members):
    return members[:-1]


def with_one_more(listed, members):
    return [*members, (tarfile.TarInfo("more"), b"")]


def twice(listed, members):
    return [*members, members[-1]]


def other_content(listed, members):
    info, content = members[-1]
    return [*members[:-1], (info, bytes([content[0] ^ 1]) + content[1:])]


def with_a_link(listed, members):
    info = members[-1][0]
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return members


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (newer, "backup of version 1, got 2"),
        (renamed("../ledger.jsonl"), "outside of the home"),
        (renamed("done/../../x"), "outside of the home"),
        (renamed("/tmp/x"), "outside of the home"),
        (without_one, "is missing"),
        (with_one_more, "more is not in its list"),
        (twice, "is not in its list"),
        (other_content, "has another content"),
        (with_a_link, "is no file"),
        (lambda listed, members: members[1:], "expected a backup of a home"),
    ],
)
def test_a_changed_archive_restores_nothing(home, tmp_path, change, words):
    archive, changed = tmp_path / "home.tar.gz", tmp_path / "changed.tar.gz"
    backup.back_up(home, archive)
    repacked(archive, changed, change)
    with refused(words):
        backup.restore(tmp_path / "new" / "home", changed)
    assert sorted(os.listdir(tmp_path)) == ["changed.tar.gz", "home.tar.gz", "new"]
    assert not list((tmp_path / "new").iterdir())


def test_a_cut_archive_restores_nothing(home, tmp_path):
    archive = tmp_path / "home.tar.gz"
    backup.back_up(home, archive)
    whole = archive.read_bytes()
    unpacked = gzip.decompress(whole)
    cuts = [whole[: int(len(whole) * share)] for share in (0.0, 0.001, 0.3, 0.9)]
    cuts += [gzip.compress(unpacked[: len(unpacked) // 2]), b"no archive"]
    for content in cuts:
        archive.write_bytes(content)
        with refused("cut or changed|expected a backup"):
            backup.restore(tmp_path / "new", archive)
        assert os.listdir(tmp_path) == ["home.tar.gz"]
    with refused("no file"):
        backup.restore(tmp_path / "new", tmp_path / "none")


def test_every_lost_file_has_its_line(built, home, capsys):
    """Each file in each way in which commands refuse it."""
    data, whole = built / "a", built / "a" / "home"
    assert problems(home, data) == []
    places, others = by_name(whole), by_name(built / "b" / "home")
    unsaid = []
    for name, answers in TABLE.items():
        for how, answer in zip(DAMAGES, answers, strict=True):
            if answer not in (REFUSED, FAILED):
                continue
            place = places[name]
            older = data / "older" / place
            other = built / "b" / "home" / others.get(name, place)
            DAMAGES[how](home / place, older, other)
            found = problems(home, data)
            if not found:
                unsaid.append((name, how))
            if (home / place).exists():
                (home / place).unlink()
            shutil.copy2(whole / place, home / place)
    assert unsaid == []
    assert problems(home, data) == []


def test_the_command_names_the_damage(home, line):
    (home / "done" / "sweep.head").unlink()
    code, out, err = line("home", "check")
    (said,) = [x for x in out.splitlines() if x.startswith("done/sweep.jsonl")]
    assert (code, err) == (1, "")
    assert "sweep.head is missing" in said
    assert "picked/vault: whole" in out
    found = checked("home check", line("home", "check", "--json")[1])["parts"]
    assert sum(bool(part["problem"]) for part in found) == 1


@pytest.fixture
def earlier(tmp_path, monkeypatch):
    """A home that the code of commit 0288406a made: a grid under a total, a private
    selection, and a search with its filter.
    """
    with tarfile.open(EARLIER) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SWEEP_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("SWEEP_TRACKING", "none")
    return tmp_path


def test_a_home_of_earlier_code_is_brought_to_todays_form(earlier, line):
    """Nothing that was spent is lost, and every command goes on with it."""
    home = earlier / "home"
    (home / "done" / "space.yaml").chmod(0o644)
    before = Ledger(home / FILE).entries()
    done = line.document("home upgrade")["done"]
    assert f"ledger.jsonl is in today's form: {len(before)} lines." in done
    assert any("could be read by others, and no longer can" in each for each in done)
    assert {p.stat().st_mode & 0o077 for p in (home / "done").rglob("*")} == {0}
    assert Ledger(home / FILE).entries() == before
    assert (
        line.says("ledger", "--check") == "The ledger has every epoch of every sweep.\n"
    )
    (spend,) = line.facts("ledger")["datasets"]
    assert spend["total"]["epsilon"] == pytest.approx(2.274, abs=0.01)
    assert not any(part["problem"] for part in line.document("home check")["parts"])
    for name in ("done", "picked", "search"):
        line.says("resume", name, "--json")
        line.says("export", name, "--any-epsilon", "--to", earlier / f"{name}-best")
    again = line.document("home upgrade")["done"]
    assert [*again[:2], again[-1]] == [*done[:2], done[-1]]


def test_a_ledger_of_another_form_is_rewritten(earlier, line):
    """As one that has a word for all steps of a release."""
    file = earlier / "home" / FILE
    file.write_bytes(b"cut")
    assert "restore it from a copy" in line.refused("home", "upgrade")
    assert file.read_bytes() == b"cut"
    with pytest.raises(InvalidData):
        list(home_check.upgrade(settings_in(earlier)))
