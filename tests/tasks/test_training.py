"""The training loop keeps the best epoch of each part among the epochs that trained
it.
"""

import math

import pytest
from torch import nn

from trainables.config.sections import TrainingConfig
from trainables.system import memory
from trainables.system.communication import Alone
from trainables.training import train


class Staged:
    """Each epoch sets the weight of its stage to the epoch's number; losses are
    given.
    """

    def __init__(self, stages, losses):
        self.stages, self.losses = stages, losses
        parts = {stage: nn.Linear(1, 1, bias=False) for stage in dict.fromkeys(stages)}
        self.model = nn.ModuleDict(parts)
        for part in parts.values():
            nn.init.constant_(part.weight, -1.0)
        self.engine = self
        self.epochs_done = 0

    def run_epoch(self, epoch):
        nn.init.constant_(self.model[self.stages[epoch]].weight, epoch + 1)
        self.epochs_done = epoch + 1
        return {}

    def validation_metric(self, epoch):
        return f"loss_{self.stages[epoch]}", f"{self.stages[epoch]}."

    def validate(self, epoch):
        return {
            f"loss_{stage}": value
            for stage, value in self.losses[self.epochs_done - 1].items()
        }

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass

    def kept(self):
        state = self.model.state_dict()
        return {stage: float(state[f"{stage}.weight"]) for stage in self.model}


def run(learner, *, folder=None, until=99, **training):
    return train(
        learner,
        TrainingConfig(epochs=len(learner.stages), **training),
        folder=folder,
        comm=Alone(),
        report=lambda epoch: epoch.epochs_done < until,
    )


# The second stage never comes back to the loss that its public weights had in epochs 1
# and 2.
WORSE = [
    {"parses": 2.0, "utterances": 3.0},
    {"parses": 1.0, "utterances": 3.0},
    {"parses": 1.0, "utterances": 6.0},
    {"parses": 1.0, "utterances": 4.0},
    {"parses": 1.0, "utterances": 5.0},
]
STAGES = ["parses", "parses", "utterances", "utterances", "utterances"]


def test_the_last_epoch_of_each_stage_is_kept_where_asked():
    learner = Staged(STAGES, WORSE)
    run(learner, keep="last")
    assert learner.kept() == {"parses": 2, "utterances": 5}


@pytest.mark.parametrize("until", [None, 1, 2, 3, 4])
def test_a_stage_that_was_trained_is_kept_trained(until, tmp_path):
    """Also after an interruption."""
    if until is not None:
        run(Staged(STAGES, WORSE), folder=tmp_path, until=until)
    learner = Staged(STAGES, WORSE)
    trained = run(learner, folder=tmp_path)
    assert learner.kept() == {"parses": 2, "utterances": 4}
    assert trained.best_epochs == {"parses.": 2, "utterances.": 4}
    assert trained.best_epoch == 4


def test_a_stage_that_no_epoch_trained_stays_as_it_was():
    learner = Staged(STAGES, WORSE)
    assert run(learner, until=1).best_epochs == {"parses.": 1}
    assert learner.kept() == {"parses": 1, "utterances": -1}


@pytest.mark.parametrize(
    ("losses", "best"),
    [
        ([2.0, 1.0, 1.0], 3),
        ([math.nan, 2.0, 3.0], 2),
        ([2.0, math.nan, 3.0], 1),
        ([math.nan, math.inf, math.nan], 3),
    ],
)
@pytest.mark.parametrize("until", [1, 99])
def test_of_equal_losses_the_later_is_kept_and_no_number_is_smaller(
    losses, best, until, tmp_path
):
    learner = Staged(["all"] * 3, [{"all": loss} for loss in losses])
    run(learner, folder=tmp_path, until=until)
    assert (run(learner, folder=tmp_path).best_epoch, learner.kept()) == (
        best,
        {"all": best},
    )


def test_freed_memory_goes_back_after_every_epoch(monkeypatch):
    done = []
    learner = Staged(STAGES, WORSE)
    monkeypatch.setattr(memory, "give_back", lambda: done.append(learner.epochs_done))
    run(learner)
    assert done == [1, 2, 3, 4, 5]
