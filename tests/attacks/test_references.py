import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from tests.attacks._worlds import coins, of_sweep, paired_coins, signals
from tests.refusals import refused
from trainables.attacks import (
    Knowledge,
    bavaria,
    calibrated,
    lira,
    loss_threshold,
    one_run,
    rmia,
)
from trainables.attacks._gaussians import ratio
from trainables.attacks._panel import record_scores, sweep_scores
from trainables.attacks._references import likelihoods, moments_of
from trainables.metrics.membership import auc, roc, tpr_at_fpr

N, TRIALS = 2_000, 16
ATTACKS = (bavaria, calibrated, lira, rmia)
EACH = pytest.mark.parametrize("attack", ATTACKS)
DIFFICULTY = np.random.default_rng(99).normal(0, 2, N)


def _sweep(strength=1.0, trials=TRIALS, n=N, difficulty=DIFFICULTY, population=0):
    """Trials on records that differ in how hard they are, which a lone loss cannot tell
    apart.
    """
    outside = np.arange(n) >= n - population
    return [
        signals(
            coins(n, seed) & ~outside,
            strength,
            seed=1_000 + seed,
            difficulty=difficulty,
            population=outside,
        )
        for seed in range(trials)
    ]


def auc_by(attack, trials):
    """Of the first trial against all the others."""
    return auc(attack.all_scores(trials)[0], trials[0].member)


@pytest.mark.parametrize("trials", [4, 18])
def test_a_trials_own_coins_leave_no_rounding_error_in_its_scores(trials):
    # The one-run bound is void, and ties are broken by the coin, where a score depends
    # on it.
    sweep = _sweep(trials=trials, n=500, difficulty=DIFFICULTY[:500], population=50)
    other = coins(500, 777) & ~sweep[0].population
    flipped = [replace(sweep[0], member=other), *sweep[1:]]
    before, after = sweep_scores(sweep)[0], sweep_scores(flipped)[0]
    assert {name: before[name].tolist() for name in before} == {
        name: after[name].tolist() for name in after
    }


def test_lira_is_the_ratio_of_the_two_gaussians_that_the_references_show():
    """Against a plain loop, one variance for all records and one for each."""
    rng = np.random.default_rng(0)
    values, members = rng.normal(size=(12, 30)), rng.random((12, 30)) < 0.5
    members[:2], members[2:4] = (
        True,
        False,
    )  # every record has both sides, with a variance
    moments = moments_of(list(values), list(members), num_records=30)
    psi = rng.normal(size=30)
    sides = [
        [values[members[:, i] == side, i] for i in range(30)] for side in (False, True)
    ]
    common = [
        np.sqrt(
            sum(((v - v.mean()) ** 2).sum() for v in side)
            / sum(len(v) - 1 for v in side)
        )
        for side in sides
    ]
    for variance in ("global", "per_record"):
        expected = []
        for i in range(30):
            out, inside = sides[0][i], sides[1][i]
            std = (
                common
                if variance == "global"
                else (out.std(ddof=1), inside.std(ddof=1))
            )
            log_in, log_out = (
                norm.logpdf(psi[i], v.mean(), s)
                for v, s in ((inside, std[1]), (out, std[0]))
            )
            expected.append(log_in - log_out)
        np.testing.assert_allclose(ratio(psi, moments, variance=variance), expected)
    # Fewer than 64 models: one variance for all.
    np.testing.assert_array_equal(
        ratio(psi, moments), ratio(psi, moments, variance="global")
    )


def test_rmia_against_the_definition():
    trials = _sweep(population=300)
    target, references = trials[0], trials[1:]
    mine, *p = likelihoods(trials)
    p = np.stack(p)
    member = np.stack([reference.member for reference in references])
    a = 0.3
    found = rmia.all_scores(trials)[0]
    step = 1 / 300
    outside = target.population
    p_z = p[:, outside].mean(axis=0)
    ratio_z = mine[outside] / (0.5 * ((1 + a) * p_z + 1 - a))
    for i in np.flatnonzero(~outside)[:100]:
        out = p[~member[:, i], i].mean()
        inside = p[member[:, i], i].mean()
        ratio_x = mine[i] / ((inside + out) / 2)
        exact = (ratio_x / ratio_z >= 1).mean()
        assert exact <= found[i] < exact + step


@EACH
def test_knowing_other_models_beats_the_loss_alone(attack):
    """Hard records look like non-members to a threshold; references take the hardness
    out.
    """
    trials = _sweep(strength=1.5)
    target = trials[0]
    alone = auc(loss_threshold.scores(target, Knowledge()), target.member)
    together = auc_by(attack, trials)
    assert together.low > alone.high
    best = norm.cdf(
        1.5 / np.sqrt(2)
    )  # the AUC of one who knows every record's hardness
    assert together.value > best - 0.07
    assert together.low < best


def test_trials_of_one_kind_keep_their_likelihoods():
    trial = signals(coins(300, 0))
    for found in likelihoods([trial, trial]):
        np.testing.assert_allclose(found, np.exp(trial.log_confidence), atol=1e-6)


@EACH
def test_trials_that_are_surer_of_everything_do_not_drown_the_others(attack):
    """References at twice the temperature, or half: the AUC stays where it was."""
    trials = _sweep(strength=1.5)
    expected = auc_by(attack, trials).value
    heated = [
        replace(trial, log_confidence=-np.logaddexp(0, -factor * trial.psi))
        for trial, factor in zip(
            trials, [1.0, *np.geomspace(0.5, 2, TRIALS - 1)], strict=True
        )
    ]
    assert auc_by(attack, heated).value == pytest.approx(expected, abs=0.02)


def test_one_reference_is_enough_to_run():
    trials = _sweep(trials=2)
    for attack in ATTACKS:
        found = attack.all_scores(trials)[0]
        assert np.isfinite(found).all()
        assert auc(found, trials[0].member).value > 0.55


def test_variances_of_records_differ_and_many_models_show_it():
    """With 80 models LiRA takes each record's own variance, which here helps at low
    FPR.
    """
    rng = np.random.default_rng(0)
    n, models = 2_000, 80
    spread = np.exp(rng.normal(0, 1, n))
    members = rng.random((models + 1, n)) < 0.5
    values = spread * (rng.normal(size=members.shape) + 1.5 * members)
    moments = moments_of(list(values[1:]), list(members[1:]), num_records=n)
    rates = {
        variance: tpr_at_fpr(
            roc(ratio(values[0], moments, variance=variance), members[0]), 0.01
        ).value
        for variance in ("auto", "per_record", "global", "shrunk")
    }
    assert rates["auto"] == rates["per_record"] > 2 * rates["global"]
    assert rates["shrunk"] > 2 * rates["global"]


def test_hundred_trials_of_ten_thousand_records():
    trials = _sweep(trials=100, n=10_000, difficulty=None)
    tracemalloc.start()
    started = time.process_time()
    lira.all_scores(trials)
    seconds, memory = time.process_time() - started, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds < 10
    assert memory < 2 * 2**30


def test_references_must_lie_on_the_targets_records():
    target = signals(coins(100, 0))
    other = signals(coins(90, 1))
    with refused("on all 100 records of the target, 10 have none"):
        lira.all_scores([target, other])
    elsewhere = signals(coins(100, 1), corpus="another")
    with refused("on the target's corpus"):
        rmia.all_scores([target, elsewhere])
    assert np.isfinite(calibrated.all_scores([target, signals(coins(150, 1))])[0]).all()
    with refused("expected references for the attack lira, got none"):
        record_scores(target, Knowledge(), attacks=["lira"])
    for attack in ATTACKS:
        with refused("at least 2 trials"):
            attack.all_scores([target])


def test_sweep_panel_of_pairs_certifies_every_trial_at_a_share_of_the_error():
    trials = []
    for seed in range(10):
        member, pairs = paired_coins(600, seed)
        trials.append(signals(member, 2.0, seed=900 + seed, mode="paired", pairs=pairs))
    for figures in of_sweep(trials):
        assert figures["epsilon_lower_bound_p"] == pytest.approx(0.05 / 10)
        assert figures["epsilon_lower_bound"] > 0.3
        assert figures["epsilon_lower_bound"] < figures["epsilon_estimate_fdp"] + 0.5
        assert figures["mia_one_run_num_guesses"] == 30


@pytest.mark.parametrize("design", ["twice the same", "balanced"])
def test_masks_that_tell_of_each_other_are_refused(design):
    if design == "balanced":
        rng = np.random.default_rng(0)
        masks = np.stack(
            [rng.permutation(np.repeat([True, False], 12)) for _ in range(N)], axis=1
        )
    else:
        masks = np.stack([coins(N, seed % 3) for seed in range(4)])
    trials = [signals(mask, 1.0, seed=i) for i, mask in enumerate(masks)]
    with refused("independent membership mask"):
        of_sweep(trials)


@pytest.mark.parametrize("seeds", [(0, 1, 1), (0, 0, 1, 1), (0, *[1] * 18)])
def test_trials_of_two_splits_are_references_of_each_other_with_populations_of_their_own(
    seeds,
):
    n = 8_000
    populations = [np.random.default_rng(seed).random(n) < 0.1 for seed in (0, 1)]
    trials = [
        signals(
            coins(n, i) & ~populations[split],
            1.0,
            seed=i,
            population=populations[split],
        )
        for i, split in enumerate(seeds)
    ]
    together = sweep_scores(trials)
    for place in (0, len(trials) - 1):
        others = [t for i, t in enumerate(trials) if i != place]
        for name, attack in (("lira", lira), ("rmia", rmia), ("one_run", one_run)):
            alone = attack.all_scores([trials[place], *others])[0]
            np.testing.assert_allclose(together[place][name], alone, atol=1e-6)


def test_a_mask_that_two_splits_share_is_refused():
    n, mask = 8_000, coins(8_000, 0)
    populations = [np.random.default_rng(seed).random(n) < 0.1 for seed in (0, 1)]
    trials = [
        signals(mask & ~outside, 1.0, seed=i, population=outside)
        for i, outside in enumerate(populations)
    ]
    with refused("independent membership mask"):
        sweep_scores(trials)


def test_a_fixed_split_has_no_reference_models():
    member = coins(500, 0)
    trials = [signals(member, 1.0, seed=i, mode="paper") for i in range(3)]
    with refused(r"data\.split bernoulli or paired for the attack"):
        of_sweep(trials)
