"""A row's changes: of the baseline's of the same seeds, and of attacks that are not inverted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sweep.reproduction import collect
from sweep.reproduction.rows import Row
from sweep.reproduction.stages import Stage
from sweep.store.sweep_folder import SweepFolder
from sweep.store.sweeps import TrialRecord
from tests.sweep.reproduction.small_table import PAIR
from tests.sweep.results.test_select import record
from trainables import attacks, evidence
from trainables.metrics import membership
from trainables.metrics._counts import NAMES, from_table

NUM = 400


def trial(folder: SweepFolder, name: str, *, seed: int, error: float, gap: float) -> TrialRecord:
    """A finished trial with `error` of the intents wrong, whose members score higher by `gap`."""
    place = folder.trial_folder(name)
    place.mkdir(parents=True)
    table = np.zeros((NUM, len(NAMES)), dtype=np.int64)
    table[:, NAMES.index("utterances")] = table[:, NAMES.index("reference_intents")] = 1
    table[: round(error * NUM), NAMES.index("intent_errors")] = 1
    evidence.write_counts(place, np.arange(NUM), from_table(table))
    member = np.arange(NUM) % 2 == 0
    noise = np.random.default_rng(seed).normal(size=NUM)
    scores = {"shadow": gap * member + noise, "loss_threshold": 0.1 * member + noise}
    evidence.write_scores(place, scores)
    attacks.write_signals(
        place / "signals.npz",
        attacks.Signals(
            records=np.arange(NUM),
            member=member,
            features=np.full((NUM, 8), 0.5),
            log_confidence=-np.ones(NUM),
            pairs=np.full(NUM, -1),
            population=np.zeros(NUM, dtype=np.bool_),
            mode="paper",
        ),
    )
    found = {
        f"mia_{attack}_{figure}": value
        for attack, each in scores.items()
        for figure, value in membership.figures(each, member).items()
    }
    ended = record(name, ser=error, ser_low=error - 0.03, ser_high=error + 0.03, **found)
    best = attacks.strongest(found)
    assert best is not None
    return replace(
        ended,
        plan=replace(ended.plan, seed=seed),
        metrics={**ended.metrics, **best.figures()},
    )


@pytest.fixture
def row_of(tmp_path: Path) -> RowOf:
    return RowOf(tmp_path)


class RowOf:
    """A row of trials beside a baseline, both given as (seed, error, gap)."""

    def __init__(self, folder: Path) -> None:
        self.folder = SweepFolder(folder)
        self.stage = Stage(
            pair=PAIR,
            part="full",
            decay=None,
            space=None,  # type: ignore[arg-type]  # a row reads none of it
            methods={"it": "it"},
            points={},
        )

    def __call__(
        self, mine: list[tuple[int, float, float]], base: list[tuple[int, float, float]]
    ) -> Row:
        sides = [
            [
                trial(self.folder, f"{name}{seed}", seed=seed, error=error, gap=gap)
                for seed, error, gap in each
            ]
            for name, each in (("mine", mine), ("base", base))
        ]
        return collect._row(self.folder, self.stage, "it", sides[0], sides[1])


def test_a_row_of_one_seed_is_compared_with_that_seed_of_the_baseline(row_of: RowOf) -> None:
    found = row_of([(1, 0.2, 0.5)], [(0, 0.1, 0.5), (1, 0.2, 0.5), (2, 0.1, 0.5)])
    assert found.ser_change is not None
    assert found.ser_change.value == pytest.approx(0.0, abs=1e-9)
    assert found.seeds == 1


def test_the_change_of_an_inverted_attack_falls_with_its_leakage(row_of: RowOf) -> None:
    """SGD's members score far lower in the strongest attack, the private method's hardly."""
    found = row_of([(0, 0.2, -0.1)], [(0, 0.1, -1.5)])
    assert found.leakage_change is not None
    assert found.leakage_change.high < -20
    assert found.mia_change is None, "no ratio of an AUC below one half"


def test_the_name_of_a_strongest_attack_says_that_it_is_inverted(row_of: RowOf) -> None:
    found = row_of([(0, 0.2, -1.5)], [(0, 0.1, 0.5)])
    assert found.attack == "shadow inverted"
    assert found.mia_change is None
