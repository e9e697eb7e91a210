"""The parts of the step audit: its inputs, its error levels, and which epoch it
shows.
"""

from collections import Counter
from functools import partial

import engine_checks
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainables import catalogue
from trainables.dp.accounting.gaussian import gaussian_epsilon
from trainables.dp.audit.audit import Multiplier, StepAudit
from trainables.dp.engines import _private, step_audit
from trainables.dp.engines._audit_model import ChosenByRecord, ChosenGradients
from trainables.dp.engines.engine import StepStats, sum_of_losses

mechanism = partial(engine_checks.mechanism, batch=8, workers=2, records=64)
_GROUPS = (slice(0, 64), slice(64, 192), slice(192, 448))


@pytest.mark.parametrize("microbatch_size", [1, 4])
@pytest.mark.parametrize("sampling", ["shuffle", "poisson"])
def test_the_audited_inputs_are_neighbours(microbatch_size, sampling):
    """One record is replaced, or added; a direction moves its own group of coordinates
    alone.
    """
    made = mechanism(
        sampling=sampling,
        noise_calibration="central",
        microbatch_size=microbatch_size,
        max_grad_norm=0.25,
    )
    changed = (1, 1) if made.neighboring_relation == "replace_one" else (0, 1)
    table, pairs = step_audit._inputs(made)
    for pair in pairs:
        left, right = (Counter(sum(side, ())) for side in (pair.left, pair.right))
        assert ((left - right).total(), (right - left).total()) == changed, pair.name
        assert max(len(unit) for unit in (*pair.left, *pair.right)) <= microbatch_size
    assert len({pair.name for pair in pairs}) == len(pairs)
    assert float(table[0].norm()) == pytest.approx(0.1 * made.max_grad_norm)
    start = 0
    for number, width in enumerate((*step_audit._WIDTHS, table.shape[1])):
        row, back = table[1 + 2 * number : 3 + 2 * number]
        own = slice(start, start + width) if number < 3 else slice(0, width)
        assert row.norm() == row[own].norm()
        assert [int((row[part] != 0).sum()) for part in _GROUPS] == [
            int(number in (group, 3)) for group in range(3)
        ]
        assert row.max() == pytest.approx(1e3 * made.max_grad_norm), (
            "clipped to its direction"
        )
        assert torch.equal(back, -3 * row)
        start += width
    assert table[-1].isnan().all()
    read = {
        row
        for pair in pairs
        for side in (pair.left, pair.right)
        for unit in side
        for row in unit
    }
    assert read >= {0, *range(1, len(table), 2)}, (
        "every direction is tried, and the broken row"
    )


@pytest.mark.parametrize("by_record", [False, True])
def test_what_is_compared_are_the_steps_releases(by_record):
    """Each call's, from the first to the last, times M, on either side; in the layout's
    groups.
    """
    made, toy = mechanism(), ChosenByRecord if by_record else ChosenGradients
    table, pairs = step_audit._inputs(made)
    left, right, groups = step_audit._release(
        made, pairs[1], table, 2, 3, (5, 6), toy, {}
    )
    assert groups == list(_GROUPS)
    for units, side in ((pairs[1].left, left), (pairs[1].right, right)):
        engine = step_audit._engine(made, units, table, (5, 6), toy)
        for call, row in enumerate(side):
            engine.step(2, call + 1)
            assert (
                engine.released.numpy().astype(float) * made.num_microbatches == row
            ).all()
    assert isinstance(engine.model, toy)


def test_the_checks_of_an_audit_share_its_false_alarms(monkeypatch):
    """By the union bound: what they are allowed, in both epochs, adds up to what is
    stated.
    """
    levels = []

    def noting(real):
        def check(*given, false_alarm, **named):
            levels.append(false_alarm)
            return real(*given, false_alarm=false_alarm, **named)

        return check

    for name in ("effective_multiplier", "distinguish"):
        monkeypatch.setattr(step_audit, name, noting(getattr(step_audit, name)))
    found = step_audit.audit_step(mechanism(), calls=100)
    assert len(levels) > 2
    assert sum(levels) <= found.false_alarm * (1 + 1e-9)
    again = step_audit.audit_step(mechanism(), calls=100, seed=1)
    assert again.estimate != found.estimate, "another seed is another audit"


@pytest.mark.parametrize("bound", [0.0, 100.0])
@pytest.mark.parametrize("violation", [None, "first look", "second look"])
def test_a_step_passes_where_every_check_finds_what_is_claimed(
    violation, bound, monkeypatch
):
    """A Gaussian's noise on all pairs and again on the worst; a bound that assumes no
    noise.
    """
    claim = mechanism(noise_multiplier=2.0)
    claimed = claim.effective_noise_multiplier_at(0)
    assert claimed != 1.0
    pairs = len(step_audit._inputs(claim)[1])
    calls = 0

    def found(*_, **__):
        nonlocal calls
        calls += 1
        is_again = calls % (pairs + 1) == 0
        violates = violation == ("second look" if is_again else "first look")
        noise = claimed * (
            1 - (2e-4 if violates else 5e-5)
        )  # what rounds is no violation
        return Multiplier(estimate=noise, low=noise / 2, high=noise)

    monkeypatch.setattr(step_audit, "effective_multiplier", found)
    monkeypatch.setattr(step_audit, "distinguish", lambda *_, **__: bound)
    audit = step_audit.audit_step(claim, calls=100)
    assert audit.passed == (violation is None and bound == 0.0)
    assert audit.interval == (audit.estimate / 2, audit.estimate)
    assert audit.epsilon_claimed == gaussian_epsilon(1 / claimed, audit.delta)


def test_the_calls_of_an_audit_are_the_releases_that_it_looks_at(monkeypatch):
    looked_at = Counter[int]()
    real = step_audit._release

    def release(mechanism, pair, table, epoch, *rest):
        left, right, groups = real(mechanism, pair, table, epoch, *rest)
        looked_at[epoch] += len(left) + len(right)
        return left, right, groups

    monkeypatch.setattr(step_audit, "_release", release)
    found = step_audit.audit_step(mechanism(), calls=200)
    assert found.calls == looked_at[found.epoch] == 100, "half of them in either epoch"


@pytest.mark.parametrize("first_fails", [False, True])
def test_the_epoch_that_is_worst_against_its_claim_is_shown(first_fails, monkeypatch):
    """Half of a large claim is worse than nine tenths of a small one; what fails is the
    worst.
    """

    def audit(mechanism, epoch, *, calls, seed, **fields):
        claimed, estimate = (1.0, 0.9) if epoch == 0 else (4.0, 2.0)
        return StepAudit(
            claimed=claimed,
            estimate=estimate,
            interval=(estimate, estimate),
            epsilon_claimed=1.0,
            epsilon_lower_bound=0.0,
            delta=1e-5,
            worst_input="",
            epoch=epoch,
            calls=calls,
            false_alarm=1e-4,
            passed=epoch > 0 or not first_fails,
        )

    monkeypatch.setattr(step_audit, "_audit_epoch", audit)
    assert step_audit.audit_step(mechanism(), calls=100).epoch == (
        0 if first_fails else 2
    )


@given(st.integers(0, 2**40), st.sampled_from(["cpu", "meta"]))
def test_the_sums_of_a_step_are_kept_in_double_precision_on_its_device(records, device):
    """Counts, too: a sum over processes is of one device's numbers."""
    sums = dict.fromkeys(
        ("loss", "lost", "norm", "clipped", "nonfinite"),
        torch.tensor(0.5, device=device),
    )
    found = StepStats(records=records, units=3, **sums).vector()
    assert (found.dtype, found.device.type) == (torch.float64, device)
    assert device == "meta" or records in found.tolist()
    large = torch.tensor([2.0**25, 1.0])  # which float32 adds up to the first
    found = StepStats.of(sum_of_losses(large), large, records=2, bound=1.0)
    assert float(found.loss) == float(found.norm) == 2**25 + 1


@pytest.mark.parametrize("secure", [False, True])
def test_what_noise_a_trial_asks_for_reaches_the_draw(secure, monkeypatch):
    """Only on a GPU does the answer make a difference."""
    seen = []
    real = _private.add_noise_

    def add_noise(*given, **named):
        seen.append(named.get("secure", False))
        return real(*given, **named)

    made = mechanism()
    table, pairs = step_audit._inputs(made)
    engine = step_audit._engine(made, pairs[0].left, table, (0, 0))
    monkeypatch.setattr(_private, "add_noise_", add_noise)
    engine._secure = secure
    engine.step(0, 1)
    assert set(seen) == {secure}


def test_the_audit_runs_every_kind_of_step():
    found = {
        name: [
            " ".join(map(str, fields.values()))
            for fields in catalogue.entry("engines", name).audited
        ]
        for name in ("dp_sgd", "edp_sgd", "sgd")
    }
    assert found == {
        "sgd": [],
        "dp_sgd": ["poisson", "shuffle", "random_allocation"],
        "edp_sgd": [
            *(
                "paper 8",
                "paper first_step_noised 8",
                "central 8",
                "central first_step_noised 8",
            ),
            *("central poisson 8", "central poisson 1 8"),
        ],
    }
