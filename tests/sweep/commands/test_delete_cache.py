"""The cache of corpora: listed with its private content, and removed as a whole."""

import re

import pytest

from sweep.planning.prepare import prepare_space
from sweep.store import sweeps as store
from sweep.store.data_sets import open_data
from tests.sweep.sweeps import settings_in, space_in
from trainables.config import parse


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A home whose cache holds a corpus that was really read, and more."""
    settings = settings_in(tmp_path)
    monkeypatch.setenv("SWEEP_HOME", str(settings.home))
    settings.cache_dir.mkdir(parents=True)
    config = parse({"data": space_in(tmp_path).base["data"]})
    open_data(config.data, settings)
    (settings.cache_dir / "rows-1.npz").write_bytes(b"x" * 1000)
    (settings.cache_dir / "shadows").mkdir()
    (settings.cache_dir / "something").write_text("else")
    return tmp_path


def test_delete_with_cache_says_what_lay_where_and_leaves_nothing(place, line):
    cache = settings_in(place).cache_dir
    out = line.says("delete", "--cache", "--yes")
    assert re.search(
        r"json_lines-\S+: a corpus: its distinct words, tokens and labels, 0\.\d MB", out
    )
    assert f"{cache / 'rows-1.npz'}: features of private utterances, 0.0 MB" in out
    assert "something: unknown; treated as private" in out
    assert "`sweep delete NAME`" in out
    assert not [path for path in cache.iterdir() if path.suffix != ".lock"]
    assert "is empty" in line.says("delete", "--cache", "--yes")


@pytest.mark.parametrize("arguments", [["delete"], ["delete", "toy", "--cache"]])
def test_a_name_or_the_cache(arguments, place, line):
    assert "expected either the NAME of a sweep or --cache" in line.refused(*arguments)


def test_the_cache_of_a_running_sweep_stays(place, line):
    settings = settings_in(place)
    prepared = prepare_space(space_in(place), settings=settings)
    folder = store.create(settings.home, prepared.space, prepared.plan, about={})
    before = list(settings.cache_dir.rglob("*"))
    with folder.hold_lock():
        code, _, err = line("delete", "--cache", "--yes")
    assert code == 2
    assert "toy is running" in err
    assert list(settings.cache_dir.rglob("*")) == before
