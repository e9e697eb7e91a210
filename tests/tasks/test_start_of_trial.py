"""A trial whose weights start from noised counts and means of its records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.engines.engine_checks import Meeting
from tests.tasks.test_heads_trial import FIELDS, trial
from trainables.cards import card as cards
from trainables.cards.page import to_markdown
from trainables.config import parse
from trainables.data.batches import Loader
from trainables.privacy import start
from trainables.privacy.from_config import build
from trainables.privacy.noise import public_key
from trainables.system.communication import Communicator
from trainables.tasks import _start

SHARES = {"counts": 0.02, "means": 0.05}


class Heads(torch.nn.Module):
    """Rows of 3 entries and a constant, two intents, two tags."""

    constant = 0.5

    def labelled(self, batch: Any) -> start.Labelled:
        return batch

    def start_from(self, intents: torch.Tensor, tags: torch.Tensor) -> None:
        self.found = (intents, tags)


class Records:
    """A loader of two batches of one record each."""

    def evaluation_batches(self, ids: Any, *, max_tokens: int) -> Any:
        for place, intent in enumerate((0, 1)):
            rows = torch.nn.functional.pad(torch.eye(3)[[intent]], (0, 1), value=0.5)
            yield np.array([place]), start.Labelled(
                intents=torch.tensor([intent]), tags=torch.tensor([intent]),
                record=torch.zeros(1, dtype=torch.int64), records=rows, tokens=rows,
                num_labels=(2, 2),
            )  # fmt: skip


def set_start(folder: Path, comm: Communicator, seed: int = 0, **shares: float) -> Heads:
    made = build(
        parse({**FIELDS, "privacy": {"sampling": "full", "start": shares or SHARES}}),
        num_records=2_560,
    )
    model = Heads()
    loader: Loader = Records()  # type: ignore[assignment]  # what is read of one
    _start.set_start(
        model, made, loader=loader, ids=np.arange(2), key=public_key(seed, "start"),
        trial_id="t", folder=folder, comm=comm,
    )  # fmt: skip
    return model


def test_every_process_starts_from_the_same_weights(tmp_path: Path) -> None:
    """One of them draws: other keys elsewhere change nothing."""
    meeting = Meeting(2)
    found = meeting.run(lambda comm: set_start(tmp_path, comm, seed=comm.rank).found)
    assert all(map(torch.equal, found[0], found[1]))


def test_biases_are_of_counts_and_rows_are_of_means(tmp_path: Path) -> None:
    alone = Meeting(1).members[0]
    intents, tags = set_start(tmp_path, alone, counts=0.1).found
    assert intents[:, :-1].count_nonzero() == tags[:, :-1].count_nonzero() == 0
    intents, tags = set_start(tmp_path, alone, means=0.1).found
    assert intents[:, :-1].count_nonzero() == tags[:, :-1].count_nonzero() == 6
    assert intents[:, -1].count_nonzero() == tags[:, -1].count_nonzero() == 0


def test_resumed_training_does_not_charge_its_start_again(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    assert not hasattr(set_start(tmp_path, Meeting(1).members[0]), "found")


def test_a_trial_with_a_start_holds_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FIELDS, "privacy", {**FIELDS["privacy"], "start": SHARES})
    found = trial(tmp_path)
    metrics = found.metrics
    assert metrics["epsilon"] is not None
    assert metrics["ser"] is not None
    assert metrics["ser_before_training"] is not None
    assert 7.9 < metrics["epsilon"] <= 8
    assert metrics["ser"] < 0.5 * metrics["ser_before_training"]
    assert found.privacy["mechanism"]["start_counts_noise"] > 0

    def again(*args: Any, **named: Any) -> torch.Tensor:
        raise AssertionError("released twice")

    monkeypatch.setattr(start, "add_noise", again)
    assert trial(tmp_path).metrics["ser"] == metrics["ser"]


def test_its_card_says_what_the_weights_start_from() -> None:
    from trainables.accountants import account

    fields = {"engine": "dp_sgd", "model": {"name": "features"}, "training": {"steps": 10}}
    privacy = {"sampling": "full", "noise_multiplier": 6.0}
    for start_, words in ((SHARES, True), (None, False)):
        own = {**privacy, **({"start": start_} if start_ else {})}
        made = build(parse({**fields, "privacy": own}), num_records=2_560)
        found = cards.make(made, account(made), facts=cards.Facts(trial_id="t", datasets={}))
        assert ("made of counts of labels with noise of" in found.guarantee) == words
        assert ("sums of features by label" in to_markdown(found)) == words
