"""What an export says that the whole sweep has spent, from the ledger's entries."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweep.results.export import spend_of
from sweep.spending.entries import Entry, entry_for
from sweep.spending.ledger import FILE, Ledger
from tests.sweep.sweeps import space_in
from trainables.accountants import epsilon_sweep
from trainables.config import PrivacyConfig, TrainingConfig
from trainables.privacy.from_config import build_from


def entry(trial: str, *, noise: float = 4.0, delta: float = 1e-5, **other: Any) -> Entry:
    mechanism = build_from(
        "dp_sgd",
        PrivacyConfig(noise_multiplier=noise, delta=delta),
        training=TrainingConfig(epochs=4),
        num_records=2_560,
    )
    given = {"dataset": "aaa", "sweep": "s", "epochs": 4, **other}
    return entry_for(mechanism, trial=trial, **given)


@pytest.mark.parametrize("unsealed", [False, True])
def test_the_total_is_that_of_every_attempt_of_the_sweeps_own_trials(
    tmp_path: Path, unsealed: bool
) -> None:
    """The furthest entry of each, at the smallest delta; a baseline is named beside it."""
    mine = [
        entry("a", noise=3.0),
        entry("b"),
        entry("a", attempt=2, delta=1e-6),
        entry("c", noise=5),
    ]
    ledger = Ledger(tmp_path / FILE)
    others = [entry("a", epochs=2, noise=3.0), entry("x", sweep="other"), entry("sgd", noise=0.1)]
    for each in (*others, *mine):
        ledger.charge(each)
    trials = [
        SimpleNamespace(
            id=name, is_exempt=name == "sgd", baseline=name == "sgd", runs=True, fields={}
        )
        for name in ("sgd", "a", "b", "c")
    ]
    folder: Any = SimpleNamespace(
        path=tmp_path / "s", ledger_name="s", is_unsealed=unsealed, about=dict,
        plan=lambda: SimpleNamespace(trials=trials), space=lambda: space_in(tmp_path),
    )  # fmt: skip
    total, refused = spend_of(folder)
    together = epsilon_sweep([each.release for each in mine], delta=1e-6)
    assert total is not None
    assert (total.epsilon, total.delta) == (together.epsilon, 1e-6)
    [baseline] = total.unaccounted
    assert baseline.startswith("1 baseline of the sweep")
    assert ("unsealed" in refused) == unsealed
    trials.clear()
    assert spend_of(SimpleNamespace(**{**vars(folder), "ledger_name": "none"}))[0] is None
