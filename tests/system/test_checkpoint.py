"""An existing checkpoint is read or refused, never ignored, which would restart the
trial.
"""

import shutil

import pytest
import torch

from tests.refusals import refused
from trainables.errors import InvalidData
from trainables.system import checkpoint
from trainables.system.checkpoint import Checkpoint


def save(folder, epoch):
    checkpoint.save(
        folder, Checkpoint(tensors={"model.w": torch.ones(2)}, state={"epoch": epoch})
    )


def test_without_one_there_is_none(tmp_path):
    (tmp_path / ".checkpoint.123").mkdir()  # of a save that was interrupted
    assert not checkpoint.exists(tmp_path)
    assert checkpoint.load(tmp_path) is None


def test_between_its_two_renames_the_previous_one_counts(tmp_path):
    save(tmp_path, 1)
    (tmp_path / "checkpoint").rename(tmp_path / ".checkpoint.previous")
    assert checkpoint.exists(tmp_path)
    assert checkpoint.load(tmp_path).state == {"epoch": 1}
    save(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint"]


def test_a_copy_under_another_name_is_none(tmp_path):
    save(tmp_path, 1)
    (tmp_path / "checkpoint").rename(tmp_path / "checkpoint.bak")
    assert not checkpoint.exists(tmp_path)
    assert checkpoint.state_of(tmp_path) == {}
    assert checkpoint.load(tmp_path) is None


def test_to_remove_one_leaves_a_copy_under_another_name(tmp_path):
    save(tmp_path, 1)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "checkpoint.bak")
    (tmp_path / ".checkpoint.123").mkdir()  # of a save that was interrupted
    checkpoint.remove(tmp_path)
    checkpoint.remove(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.bak"]


@pytest.mark.parametrize("lost", ["state.json", "tensors.safetensors"])
def test_one_that_lost_a_file_is_refused(lost, tmp_path):
    save(tmp_path, 1)
    (tmp_path / "checkpoint" / lost).unlink()
    assert checkpoint.exists(tmp_path)
    with refused("expected a readable checkpoint in", InvalidData):
        checkpoint.load(tmp_path)
