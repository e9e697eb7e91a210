"""Mutants of what weights start from. Each row as in `mutants_of_parts`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from scipy.stats import chi2

from tests.tasks.test_start_of_trial import set_start
from trainables.accountants import account
from trainables.config import parse
from trainables.privacy import start
from trainables.privacy.from_config import build
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.noise import SecretKey, public_key
from trainables.system.communication import Alone
from trainables.tasks import _start

Patch = pytest.MonkeyPatch
Row = tuple[str, Callable[[Patch], None], Callable[[], None], str]
_OF_RELEASES = "test_start::"
_LONG = start.Labelled(  # one record of long rows, many tokens of few tags
    intents=torch.tensor([1]),
    tags=torch.tensor([0, 0, 0, 2]),
    record=torch.zeros(4, dtype=torch.int64),
    records=torch.full((1, 6), 9.0),
    tokens=torch.full((4, 6), 9.0),
    num_labels=(2, 3),
)


def _counts_are_bounded() -> None:
    assert start.counts_of(_LONG)[0].norm() <= 1 + 1e-9


def _sums_are_bounded() -> None:
    assert torch.cat([part.flatten() for part in start.sums_of_means(_LONG)]).norm() <= 1 + 1e-9


def _noise_is_whole() -> None:
    drawn = start.add_noise(
        torch.zeros(20_000), std=2.0, key=public_key(0, "start"), name="counts", trial_id="t"
    )
    low, high = chi2.ppf([5e-7, 1 - 5e-7], 20_000)
    assert low < float(drawn.square().sum()) / 4 < high


def _it_is_paid_for() -> None:
    fields = {"engine": "dp_sgd", "model": {"name": "features"}, "training": {"steps": 10}}
    privacy = {"sampling": "full", "noise_multiplier": 6.0}
    with_start = {**privacy, "start": {"counts": 0.2, "means": 0.2}}
    costs = [
        account(build(parse({**fields, "privacy": own}), num_records=2_560)).epsilon
        for own in (privacy, with_start)
    ]
    assert costs[1] > costs[0]


def _releases_have_noise_of_their_own() -> None:
    key, zeros = public_key(0, "start"), torch.zeros(64)
    drawn = [
        start.add_noise(zeros, std=1.0, key=key, name=n, trial_id="t") for n in ("counts", "means")
    ]
    assert not torch.equal(*drawn)


def _it_is_drawn_once() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "checkpoint").mkdir()
        assert not hasattr(set_start(Path(folder), Alone()), "found")


def _without_length(patch: Patch) -> None:
    def shares(self: start.Labelled) -> torch.Tensor:
        found = torch.zeros(len(self.intents), self.num_labels[1], dtype=torch.float64)
        ones = torch.ones(len(self.tags), dtype=torch.float64)
        return found.index_put_((self.record, self.tags), ones, accumulate=True)

    patch.setattr(start.Labelled, "tag_shares", shares)


def _half_the_noise(patch: Patch) -> None:
    real = start.add_noise_

    def quiet(flat: torch.Tensor, *, stream: bytes, segments: list, secure: bool) -> bool:  # type: ignore[type-arg]
        halved = [(where, std / 2) for where, std in segments]
        return real(flat, stream=stream, segments=halved, secure=secure)

    patch.setattr(start, "add_noise_", quiet)


def _one_stream(patch: Patch) -> None:
    real = SecretKey.stream
    patch.setattr(SecretKey, "stream", lambda self, *names: real(self, names[0]))


def _unaccounted(patch: Patch) -> None:
    patch.setattr(Mechanism, "effective_start_noise_multipliers", ())


def _long_rows(patch: Patch) -> None:
    patch.setattr(start, "_of_norm_one", lambda rows: rows.double())


def _drawn_again(patch: Patch) -> None:
    patch.setattr(_start.checkpoint, "is_there", lambda folder: False)


_BOUND = f"{_OF_RELEASES}test_one_record_changes_each_release_by_at_most_1"
_NOISE = f"{_OF_RELEASES}test_noise_has_the_stated_deviation_and_is_no_other_release_s"
ROWS: list[Row] = [
    ("counts of tags that grow with a record's length", _without_length, _counts_are_bounded,
     _BOUND),
    ("means of rows that are not bounded", _long_rows, _sums_are_bounded, _BOUND),
    ("half of the accounted noise on a start", _half_the_noise, _noise_is_whole, _NOISE),
    ("one noise for counts and means", _one_stream, _releases_have_noise_of_their_own, _NOISE),
    ("a start that no epsilon covers", _unaccounted, _it_is_paid_for,
     f"{_OF_RELEASES}test_every_accountant_composes_it_exactly_once_with_the_first_epoch"),
    ("a start that is released again by a trial that goes on", _drawn_again, _it_is_drawn_once,
     "test_start_of_trial::test_resumed_training_does_not_charge_its_start_again"),
]  # fmt: skip
