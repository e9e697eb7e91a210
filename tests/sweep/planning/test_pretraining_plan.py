from pathlib import Path

import pytest
import torch

from sweep.planning.pretraining import _begin, read_pretraining, run_pretraining
from tests.refusals import refused

_BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


def never(progress):
    raise AssertionError("a step was trained")


def test_changes_by_path_change_that_field_alone(pretraining):
    plain = read_pretraining(pretraining, {})
    changed = read_pretraining(pretraining, {"encoder.dropout": 0.2, "seed": 4})
    dump = plain.model_dump(mode="json")
    dump["encoder"]["dropout"], dump["seed"] = 0.2, 4
    assert changed.model_dump(mode="json") == dump


def test_corpora_without_a_file_get_the_recipe_of_the_shipped_encoder():
    shipped = read_pretraining(_BENCHMARKS / "dialogues.yaml", {"precision": "fp32"})
    alike = read_pretraining(
        None, {"name": shipped.name, "precision": "fp32"}, public=["sgd_dialogues"]
    )
    assert alike == shipped


def test_a_listed_corpus_that_is_read_is_not_left_out():
    """Its texts stay out where it plays the private one."""
    config = read_pretraining(None, {}, public=["sgd_dialogues", "snips"])
    assert [each.name for each in config.corpora] == ["sgd_dialogues", "snips"]
    assert config.leave_out == ("atis", "nlu_eval")


def test_bf16_is_chosen_where_the_processor_has_it(monkeypatch):
    for there in (True, False):
        monkeypatch.setattr(
            torch.cpu, "get_capabilities", lambda has=there: {"amx_bf16": has}
        )
        config = read_pretraining(None, {}, public=["video"])
        assert config.precision == ("bf16" if there else "fp32")


@pytest.mark.parametrize("others", [False, True])
def test_what_is_refused_before_its_first_step_leaves_nothing_of_its_own(
    pretraining, settings, tmp_path, others
):
    place = tmp_path / "encoder"
    if others:
        place.mkdir()
        (place / "mine.txt").write_text("kept")
    config = read_pretraining(pretraining, {"vocabulary": 100_000})
    with refused("vocabulary"):
        run_pretraining(config, place, settings, bits=16, report=never)
    assert place.exists() is others
    assert not others or [path.name for path in place.iterdir()] == ["mine.txt"]


def test_settings_without_a_trained_step_are_no_work_and_are_replaced(
    pretraining, tmp_path
):
    work = tmp_path / "encoder" / ".pretraining"
    one, other = (read_pretraining(pretraining, {"seed": seed}) for seed in (1, 2))
    _begin(one, work)
    (work / "leftover").write_text("of a refused one")
    _begin(other, work)
    assert [path.name for path in work.iterdir()] == ["config.json"]
