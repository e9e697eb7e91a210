"""What weights start from: each release changes by at most 1 with one record, and is paid for.

The statistical test states its false-alarm rate; sensitivity is tried on adversarial records.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from trainables import accountants
from trainables.accountants import account, release, resolve
from trainables.accountants._gauss import gaussian_epsilon
from trainables.config import parse
from trainables.errors import InvalidInput
from trainables.privacy import start
from trainables.privacy.from_config import build
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.noise import public_key

NUM_LABELS = (3, 5)
CONSTANT = 0.3


def config(start_: dict[str, float] | None, **privacy: Any) -> Any:
    own = {"start": start_} if start_ else {}
    return parse(
        {
            "engine": "dp_sgd",
            "model": {"name": "features"},
            "training": {"steps": 100, "evaluate_every": 20},
            "privacy": {"sampling": "full", "noise_multiplier": 6.0, **own, **privacy},
        }
    )


def mechanism(start_: dict[str, float] | None, **privacy: Any) -> Mechanism:
    return build(config(start_, **privacy), num_records=2_560)


@st.composite
def records(draw: st.DrawFn) -> start.Labelled:
    """Records whose rows may be huge, opposite, zero or not finite, and whose labels may be
    outside the schema.
    """
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    total, seed = sum(lengths), draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    sizes = random.choice([0.0, 1e-3, 1.0, 1e4, 1e30, np.inf, np.nan], size=total + len(lengths))
    rows = torch.from_numpy(random.normal(size=(total + len(lengths), 7)) * sizes[:, None]).float()
    if draw(st.booleans()):  # all in one direction, so that nothing cancels
        rows = rows.abs()
    return start.Labelled(
        intents=torch.tensor(draw(_labels(len(lengths), NUM_LABELS[0]))),
        tags=torch.tensor(draw(_labels(total, NUM_LABELS[1]))),
        record=torch.repeat_interleave(torch.tensor(lengths)),
        records=rows[total:],
        tokens=rows[:total],
        num_labels=NUM_LABELS,
    )


def _labels(count: int, of: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(-1, of - 1), min_size=count, max_size=count)


def one(batch: start.Labelled, place: int) -> start.Labelled:
    mine = batch.record == place
    return replace(
        batch,
        intents=batch.intents[[place]],
        tags=batch.tags[mine],
        record=torch.zeros(int(mine.sum()), dtype=torch.int64),
        records=batch.records[[place]],
        tokens=batch.tokens[mine],
    )


def flat(parts: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return torch.cat([part.flatten() for part in parts])


@settings(max_examples=80, deadline=None)
@given(records())
def test_one_record_changes_each_release_by_at_most_1(batch: start.Labelled) -> None:
    whole = flat(start.sums_of_means(batch))
    counts = start.counts_of(batch)
    assert whole.isfinite().all()
    parts = []
    for place in range(len(batch.intents)):
        alone = one(batch, place)
        parts.append(flat(start.sums_of_means(alone)))
        assert parts[-1].norm() <= 1 + 1e-9
        assert start.counts_of(alone)[0].norm() <= 1 + 1e-9
        # A record adds the same whoever else is in the batch.
        assert torch.equal(start.counts_of(alone)[0], counts[place])
    assert torch.allclose(torch.stack(parts).sum(0), whole, atol=1e-9)


def test_the_bound_is_met() -> None:
    """A bound that nothing comes near would be too much noise."""
    batch = start.Labelled(
        intents=torch.tensor([1]),
        tags=torch.tensor([2, 2]),
        record=torch.zeros(2, dtype=torch.int64),
        records=5 * torch.ones(1, 4),
        tokens=5 * torch.ones(2, 4),
        num_labels=NUM_LABELS,
    )
    assert flat(start.sums_of_means(batch)).norm() == pytest.approx(1.0)
    assert start.counts_of(batch).norm() == pytest.approx(1.0)


def test_noise_has_the_stated_deviation_and_is_no_other_release_s() -> None:
    """Two-sided chi-square test of 20,000 numbers; false-alarm rate 1e-6."""
    zeros, key = torch.zeros(100, 200, dtype=torch.float64), public_key(0, "start")
    drawn = {
        name: start.add_noise(zeros, std=3.0, key=key, name=name, trial_id="t")
        for name in ("counts", "means")
    }
    for found in drawn.values():
        squares = float(found.square().sum()) / 9
        low, high = chi2.ppf([5e-7, 1 - 5e-7], found.numel())
        assert low < squares < high
        assert not low < squares * 1.1**2 < high, "ten percent more are detected"
    apart = torch.corrcoef(torch.stack([one.flatten() for one in drawn.values()]))[0, 1]
    assert abs(float(apart)) < 5 / math.sqrt(20_000)
    assert torch.equal(
        start.add_noise(zeros, std=3.0, key=key, name="means", trial_id="t"), drawn["means"]
    )


def test_shares_are_of_the_squared_mu() -> None:
    """T steps at noise z have mu^2 = T / z^2, a start of noise s has 1 / s^2."""
    made = mechanism({"counts": 0.02, "means": 0.1})
    of_steps = 100 / 6.0**2
    whole = of_steps / (1 - 0.12)
    assert 1 / made.start_noise["counts"] ** 2 == pytest.approx(0.02 * whole)
    assert 1 / made.start_noise["means"] ** 2 == pytest.approx(0.1 * whole)
    assert account(made).epsilon == pytest.approx(
        gaussian_epsilon(math.sqrt(whole), made.delta), rel=1e-9
    )


def test_every_accountant_composes_it_exactly_once_with_the_first_epoch() -> None:
    made, without = mechanism({"counts": 0.02, "means": 0.1}), mechanism(None)
    starts = [(noise, 1) for noise in made.start_noise.values()]
    assert sorted(release(made).phases) == sorted([(6.0, 100), *starts])
    assert sorted(release(made.first(1)).phases) == sorted([(6.0, 20), *starts])
    assert release(made, first=1) == release(without, first=1), "a trial that goes on pays no more"
    assert release(made, first=0, last=0).is_nothing
    for name in ("gaussian", "pld", "rdp"):
        dearer = account(made, accountant=name).epsilon
        assert dearer > account(without, accountant=name).epsilon
        assert dearer >= account(made, accountant="gaussian").epsilon * (1 - 1e-6)
    assert accountants.epsilon_after(made, 5) == pytest.approx(account(made).epsilon)


def test_the_papers_figure_knows_no_start() -> None:
    fields: dict[str, Any] = {
        "engine": "edp_sgd",
        "model": {"name": "features"},
        "training": {"epochs": 20},
        "privacy": {"sampling": "full", "noise_calibration": "central"},
    }
    without = build(parse(fields), num_records=2_560)
    fields["privacy"]["start"] = {"counts": 0.1}
    made = build(parse(fields), num_records=2_560)
    assert account(without).epsilon_paper is not None
    assert account(made).epsilon_paper is None


def test_a_target_is_held_with_what_the_start_costs() -> None:
    found, made = resolve(
        config({"counts": 0.05}, noise_multiplier={"target_epsilon": 8}), num_records=2_560
    )
    _, plain = resolve(config(None, noise_multiplier={"target_epsilon": 8}), num_records=2_560)
    assert found.privacy.noise_multiplier == made.noise_multiplier
    assert 7.98 < account(made).epsilon <= 8
    # The start is a twentieth of mu^2: the steps have what is left.
    assert (plain.noise_multiplier / made.noise_multiplier) ** 2 == pytest.approx(0.95, rel=1e-3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"privacy": {"start": {"counts": 0.0}}}, r"0 < counts \+ means < 1, got 0 and 0"),
        ({"privacy": {"start": {"counts": 0.5, "means": 0.5}}}, r"got 0\.5 and 0\.5"),
        ({"privacy": {"start": {"counts": -0.1}}}, r"privacy\.start\.counts"),
        ({"privacy": {"start": {"count": 0.1}}}, "did you mean counts"),
        ({"model": {"name": "clc"}}, r"model\.bias > 0 with privacy\.start, got model\.name=clc"),
        ({"model": {"name": "features", "bias": 0.0}}, r"model\.bias > 0 with privacy\.start"),
        ({"engine": "sgd"}, r"unknown field privacy\.start"),
        ({"privacy": {"sampling": "poisson"}}, r"privacy\.sampling=full and privacy\.unit=record"),
        (
            {"privacy": {"unit": "group", "max_records_per_group": 2}, "data": {"num_records": 50}},
            r"privacy\.unit=record with privacy\.start",
        ),
    ],
)
def test_refused_in_one_line(fields: dict[str, Any], message: str) -> None:
    base: dict[str, Any] = {
        "engine": "dp_sgd",
        "model": {"name": "features"},
        "training": {"steps": 10},
        "privacy": {"sampling": "full", "start": {"counts": 0.1}},
    }
    for section, part in fields.items():
        base[section] = part if isinstance(part, str) else {**base.get(section, {}), **part}
    if fields.get("model"):
        base["model"] = fields["model"]
    with pytest.raises(InvalidInput, match=message) as refusal:
        build(parse(base), num_records=2_560)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("tau", [90.0, 300.0])  # the square of the noise is 0, and the noise
def test_noise_that_decays_to_nothing_is_refused_in_one_line(tau: float) -> None:
    """Of an infinite cost there are no shares."""
    with pytest.raises(InvalidInput, match=r"leave noise in every epoch with privacy.start, got"):
        mechanism({"means": 0.5}, noise_decay={"kind": "exponential", "tau": tau})


def test_an_id_from_before_there_was_a_start_stays() -> None:
    assert config(None).id == config(None, start=None).id
    assert config(None).id != config({"counts": 0.01}).id


def test_log_shares_know_nothing_below_the_noise() -> None:
    counts = torch.tensor([400.0, -30.0, 2.0], dtype=torch.float64)
    found = start.log_shares(counts, std=10.0)
    assert found[1] == found[2]
    assert float(found.sum()) == pytest.approx(0.0)
    assert float(found[0] - found[1]) == pytest.approx(math.log(40))


def test_contrasts_are_means_less_the_mean_of_all() -> None:
    """Without noise, of two classes whose rows are known."""
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    with_constant = torch.nn.functional.pad(rows, (0, 1), value=CONSTANT).double()
    sums = torch.stack([with_constant[:2].sum(0), with_constant[2]])
    found = start.contrasts(sums, constant=CONSTANT, std=0.0)
    expected = torch.tensor([[1 / 3, -1 / 3, 0.0], [-2 / 3, 2 / 3, 0.0]], dtype=torch.float64)
    assert torch.allclose(found, expected)
    with pytest.raises(ValueError, match="expected constant > 0"):
        start.contrasts(sums, constant=0.0, std=0.0)
