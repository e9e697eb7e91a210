"""A manifest notices every lost, changed or grown file of an ended trial, and quotes
none.
"""

import json
from pathlib import Path

import pytest

from sweep.store import manifest
from sweep.store.files import read_json, write_json
from tests.refusals import refused
from trainables.errors import InvalidData

_FILES = {
    "config.yaml": b"engine: sgd\n",
    "privacy_card.json": b'{"epsilon": 1}\n',
    "model/weights.safetensors": bytes(range(256)) * 2048,  # larger than one read
    "signals/a.npz": b"\0" * 100,
}


@pytest.fixture
def folder(tmp_path):
    """With files and their manifest."""
    for name, content in _FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    manifest.write(tmp_path)
    return tmp_path


def test_an_untouched_folder_is_whole(folder):
    assert manifest.exists(folder)
    assert manifest.differences(folder) == ()
    manifest.require_whole(folder)
    assert set(read_json(folder / "manifest.json")["files"]) == set(_FILES)
    (folder / "manifest.json").unlink()
    assert not manifest.exists(folder)
    assert manifest.differences(folder) == ("manifest.json is missing",)


DAMAGES = {
    "lost": (Path.unlink, "is missing"),
    "grown": (
        lambda path: path.write_bytes(path.read_bytes() + b"x"),
        "has another size",
    ),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-1]), "has another size"),
    "changed at its end": (
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"),
        "has another content",
    ),
    "changed at its beginning": (
        lambda path: path.write_bytes(b"?" + path.read_bytes()[1:]),
        "has another content",
    ),
    "a folder now": (lambda path: (path.unlink(), path.mkdir()), "is missing"),
}


@pytest.mark.parametrize("name", _FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_of_every_file_is_noticed(folder, name, damage):
    do, phrase = DAMAGES[damage]
    do(folder / name)
    assert manifest.differences(folder) == (f"{name} {phrase}",)
    with refused(f"got a difference: {name} {phrase}; restore", InvalidData):
        manifest.require_whole(folder)


def test_a_quick_look_reads_what_tables_read_and_sizes_of_the_rest(folder):
    """Reading the weights of ten thousand trials would take minutes."""
    for name in ("model/weights.safetensors", "privacy_card.json"):
        path = folder / name
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert manifest.differences(folder, thorough=False) == (
        "privacy_card.json has another content",
    )
    (folder / "model" / "weights.safetensors").write_bytes(b"")
    assert len(manifest.differences(folder, thorough=False)) == 2
    with refused(r"difference: model.* and 1 more; restore", InvalidData):
        manifest.require_whole(folder)


def test_what_is_written_after_the_end_is_no_difference(folder):
    """A comparison with other trials, files of an unfinished write."""
    for name in ("attack_scores.npz", ".hidden", "checkpoint-3/state"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("later")
    assert manifest.differences(folder) == ()
    before = (folder / "manifest.json").read_bytes()
    manifest.write(folder)
    assert (folder / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../other/config.yaml", "model/../../x"]
)
def test_a_manifest_reads_nothing_outside_of_its_folder(folder, name):
    document = read_json(folder / "manifest.json")
    document["files"][name] = {"size": 1, "sha256": "0" * 64}
    write_json(folder / "manifest.json", document)
    with refused("expected names under the folder", InvalidData):
        manifest.differences(folder)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"files": []}', '{"files": {"a": {"size": "1", "sha256": ""}}}']
)
def test_a_damaged_manifest_is_no_empty_one(folder, text):
    (folder / "manifest.json").write_text(text)
    with refused(r"expected a manifest in .*, got a damaged one", InvalidData):
        manifest.differences(folder)


@pytest.mark.parametrize("name", ["a\0b", "a" * 5_000, "é/" * 1_500, "two\nlines"])
def test_a_name_that_no_file_can_have_is_missing_in_one_line(folder, name):
    document = read_json(folder / "manifest.json")
    document["files"][name] = {"size": 1, "sha256": "0" * 64}
    (folder / "manifest.json").write_text(json.dumps(document))
    (found,) = manifest.differences(folder)
    assert found.endswith(" is missing")
    assert len(found) < 320
    assert "\n" not in found
