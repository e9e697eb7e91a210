import math

import pytest

from tests.tasks.test_nlu_trial import BERT, config, place, run
from trainables.config.trial import parse
from trainables.system import checkpoint

__all__ = ["place"]


def base():
    fields = config("dp_sgd", model=BERT).model_dump(mode="json")
    fields["training"] |= {"steps": 10, "evaluate_every": 4, "num_workers": 1}
    fields["training"].pop("epochs")
    fields["privacy"] |= {"noise_multiplier": 2.0, "reproducible_noise": False}
    return fields


def chosen_values(**training):
    fields = base()
    fields["training"] |= {"optimizer": "momentum", **training}
    fields["model"] |= {"trained": "biases"}
    return fields


def test_a_trial_is_charged_by_the_piece_and_resumes(place, tmp_path):
    """Ten steps in pieces of 4, 4 and 2, stopped in the first and taken up again."""
    fields = chosen_values()
    fields["privacy"]["reproducible_noise"] = True  # so that two runs are the same
    whole, reports = run(place, tmp_path / "whole", parse(fields))
    assert [report.epochs_done for report in reports] == [1, 2, 3]
    part, _ = run(place, tmp_path / "part", parse(fields), stop_after=1)
    assert (part.epochs_done, part.stopped_early) == (1, True)
    assert int(checkpoint.load(tmp_path / "part").part("engine")["next_step"]) == 4
    resumed, _ = run(place, tmp_path / "part", parse(fields))
    assert resumed.epochs_done == 3
    for name in ("ser", "validation_ser", "intent_accuracy"):
        assert resumed.metrics[name] == pytest.approx(whole.metrics[name])


def test_its_epsilon_is_that_of_its_steps_whatever_is_chosen(place, tmp_path):
    found = {}
    for name, fields in (("usual", base()), ("chosen", chosen_values())):
        result, _ = run(place, tmp_path / name, parse(fields), stop_after=2)
        found[name] = result.metrics["epsilon"]
        assert result.privacy.step_audit.verdict == "pass"
    assert found["usual"] == found["chosen"]
    assert found["usual"] is not None
    assert 0 < found["usual"] < math.inf
    result, _ = run(
        place, tmp_path / "eight", parse(chosen_values(steps=8, evaluate_every=8))
    )
    assert result.metrics["epsilon"] == pytest.approx(found["usual"])
