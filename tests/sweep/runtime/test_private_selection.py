"""A private selection from its start to its export: what is paid, what leaves, what is sealed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sweep.results.export import spend_of
from sweep.search import private_selection as search
from sweep.spending.ledger import FILE, Ledger
from sweep.spending.selection_entry import TRIAL
from sweep.store.sweeps import SweepFolder
from sweep.store.vault import Vault
from tests.sweep.untracked import run_untracked

_NUMBER = 5


def _fields(**fields: Any) -> dict[str, Any]:
    """Two clip norms and a range of learning rates, which is what the toy's error grows with."""
    return {
        "variants": [],
        "base": {"engine": "dp_sgd", "training": {"epochs": 2, "expected_batch_size": 30}},
        "axes": {
            "privacy.max_grad_norm": [0.5, 1.0],
            "training.learning_rate": {"range": {"low": 1e-3, "high": 1e-2}},
        },
        "search": {
            "strategy": "private_selection",
            "num_trials": {"law": "geometric", "mean": 4},
        },
        **fields,
    }


@pytest.fixture
def five(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret number is five."""
    monkeypatch.setattr(search, "draw_number", lambda law, random: _NUMBER)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SweepFolder]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "draw_number", lambda law, random: _NUMBER)
        yield run_untracked(tmp_path_factory.mktemp("done") / "toy", **_fields())


def test_the_best_by_validation_leaves_alone(done: SweepFolder) -> None:
    (record,) = done.records()
    draws = Vault(done).draws.records()
    assert len(draws) == _NUMBER
    errors = [draw.metrics["validation_ser"] for draw in draws]
    assert record.metrics["validation_ser"] == min(e for e in errors if e is not None)
    assert record.plan.id != next(d for d in draws if d.metrics["ser"] == record.metrics["ser"])


def test_the_ledger_is_charged_once_with_the_selection(done: SweepFolder) -> None:
    (entry,) = Ledger(done.path.parent / FILE).entries()
    assert (entry.trial, entry.sweep) == (TRIAL, done.ledger_name)
    assert entry.release.best_of is not None
    assert (entry.release.best_of.mean, entry.release.best_of.shape) == (4, 1)
    total, _ = spend_of(done)
    (record,) = done.records()
    assert total is not None
    assert total.epsilon == record.metrics["epsilon"] == record.plan.epsilon
    assert total.num_releases == 1
