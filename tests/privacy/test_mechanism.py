import math
import subprocess
import sys
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.refusals import refused
from trainables.config.mechanism import build, build_from, default_delta
from trainables.config.trial import PrivacyConfig, Target, TrainingConfig, parse
from trainables.dp.mechanism import LEAST_GRAD_NORM, Mechanism

NAN, INF = math.nan, math.inf


DATA_DEPENDENT = ("public", "first_step_noised", "first_step")


def mechanism(
    engine="edp_sgd", *, num_records=2_560, batch=64, workers=8, epochs=30, **privacy
):
    return build_from(
        engine,
        PrivacyConfig(**privacy),
        training=TrainingConfig(
            expected_batch_size=batch, num_workers=workers, epochs=epochs
        ),
        num_records=num_records,
    )


@pytest.mark.parametrize("workers", [1, 2, 8, 64])
@pytest.mark.parametrize("calibration", ["paper", "central"])
def test_workers_share_their_noise_out_as_a_variance(calibration, workers):
    """Algorithm 1: each adds C z / N to its own sum, so together C z / sqrt(N), not C
    z. Central: C z / sqrt(N), so C z whatever N. With micro-batches of several records
    the sensitivity is 2 C.
    """
    z, clip = 1.5, 0.5
    built = mechanism(
        workers=workers,
        noise_multiplier=z,
        max_grad_norm=clip,
        noise_calibration=calibration,
    )
    each = z / (workers if calibration == "paper" else math.sqrt(workers))
    together = each * math.sqrt(workers)
    assert built.num_microbatches == workers
    assert built.worker_noise_std_at(0) == pytest.approx(clip * each)
    assert built.noise_on_sum_at(0) == pytest.approx(together)
    assert built.effective_noise_multiplier_at(0) == pytest.approx(together / 2)


@pytest.mark.parametrize(
    ("microbatch_size", "sampling", "expected"),
    [
        (1, "poisson", 1.0),
        (1, "shuffle", 2.0),
        (4, "poisson", 2.0),
        (4, "shuffle", 2.0),
    ],
)
def test_sensitivity(microbatch_size, sampling, expected):
    built = mechanism(
        microbatch_size=microbatch_size, sampling=sampling, noise_calibration="central"
    )
    assert built.sensitivity == expected


def test_a_group_is_sampled_and_clipped_as_one():
    """However many records it has, its clipped mean moves the sum as one record's
    would.
    """
    options = {
        "sampling": "poisson",
        "noise_calibration": "central",
        "microbatch_size": 1,
    }
    record = mechanism(**options)
    group = mechanism(**options, unit="group", max_records_per_group=20)
    assert group.sensitivity == record.sensitivity == 1.0
    assert group.effective_noise_multiplier_at(
        0
    ) == record.effective_noise_multiplier_at(0)
    assert group.max_records_per_group == 20
    with pytest.raises(ValidationError, match="max_records_per_group is not read"):
        mechanism(max_records_per_group=20)


@pytest.mark.parametrize(
    ("scale", "largest"),
    [
        ({"name": "none"}, 1.0),
        *[({"name": name}, 1.0) for name in DATA_DEPENDENT],  # of norm 1
        ({"name": "public", "normalise": "none", "cap": 0.5}, 0.5),
        ({"name": "public", "normalise": "none", "cap": 7}, 7.0),
        # The first step is taken with alpha_k = 1, whatever the cap is.
        ({"name": "first_step_noised", "normalise": "none", "cap": 0.5}, 1.0),
        ({"name": "first_step_noised", "normalise": "none", "cap": 7}, 7.0),
        *[({"name": name, "normalise": "none"}, math.inf) for name in DATA_DEPENDENT],
    ],
)
def test_noise_after_the_rescale_is_weakest_where_alpha_is_largest(scale, largest):
    built = mechanism(workers=1, group_scale=scale)
    assert built.noise_on_sum_at(0) == pytest.approx(1 / largest)
    assert any("alpha_k has no bound" in each for each in built.unaccounted) == (
        largest == math.inf
    )
    central = replace(built, noise_calibration="central")
    assert central.noise_on_sum_at(0) == 1.0
    assert not any("bound" in each for each in central.unaccounted)


def test_engines_have_their_defaults():
    edp, dp = mechanism(), mechanism("dp_sgd")
    assert (
        edp.sampling,
        edp.neighboring_relation,
        edp.noise_calibration,
        edp.microbatch_size,
    ) == (*("shuffle", "replace_one", "paper", 8),)
    assert (
        dp.sampling,
        dp.neighboring_relation,
        dp.noise_calibration,
        dp.microbatch_size,
    ) == (*("poisson", "add_or_remove_one", "central", 1),)
    assert dp.num_microbatches == 64
    assert dp.sample_rate == 0.025


def test_delta_defaults_to_a_tenth_of_a_record():
    assert default_delta(10_000) == default_delta(1_000) == 1e-5
    assert mechanism(delta=5e-4).delta == 5e-4
    assert mechanism(num_records=100_000).delta == 1e-6


def test_steps():
    """Shuffle: whole epochs. Poisson: rounded up once, over all epochs together."""
    shuffle = mechanism(num_records=133_584, batch=2_048, epochs=10)
    assert [shuffle.steps_in(epoch) for epoch in range(3)] == [66, 66, 66]
    poisson = mechanism("dp_sgd", num_records=133_584, batch=2_048, epochs=10)
    assert poisson.steps == 653
    assert poisson.first(7).steps == 457
    whole = [mechanism("dp_sgd", sampling="full", num_records=n) for n in (2_560, 99)]
    every = [*whole, mechanism(num_records=64, batch=64), shuffle, poisson]
    assert [each.is_whole_batch for each in every] == [True, True, True, False, False]
    full = replace(whole[0], steps_per_epoch=7)
    assert [full.steps_until(epoch) for epoch in (0, 1, 30)] == [0, 7, 210]
    staged = replace(
        poisson, stages=(2, 1)
    )  # rounded up for each, and for the epochs after them
    assert [staged.steps_until(epoch) for epoch in (1, 2, 3, 4, 10)] == [
        66,
        131,
        197,
        263,
        654,
    ]


@given(n=st.integers(1, 10**15), batch=st.integers(1, 10**9), epochs=st.integers(1, 50))
def test_steps_are_exact_at_any_size(n, batch, epochs):
    batch = min(n, batch)
    built = mechanism(
        "dp_sgd", num_records=n, batch=batch, workers=1, epochs=epochs, delta=1e-5
    )
    assert (built.steps - 1) * batch < epochs * n <= built.steps * batch
    assert sum(built.steps_in(epoch) for epoch in range(epochs)) == built.steps


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"workers": 3}, "multiple of num_workers"),
        ({"engine": "dp_sgd", "workers": 3}, "multiple of num_workers"),
        ({"sampling": "full", "num_records": 99}, "multiple of num_workers"),
        ({"batch": 5_000, "workers": 1}, "at most the number of training records"),
        ({"microbatch_size": 3}, "divide a worker's batch"),
        ({"sampling": "full", "microbatch_size": 3}, "divide a worker's batch"),
        (
            {"microbatch_size": 16, "noise_calibration": "central"},
            r"divide a worker's batch \(8\), got 16",
        ),
        (
            {"microbatch_size": 4},
            "one micro-batch a worker with noise_calibration paper",
        ),
        (
            {"neighboring_relation": "add_or_remove_one"},
            "replace_one with sampling shuffle",
        ),
        (
            {"sampling": "poisson", "neighboring_relation": "replace_one"},
            "add_or_remove_one with sampling poisson",
        ),
        (
            {
                "engine": "dp_sgd",
                "sampling": "full",
                "neighboring_relation": "replace_one",
            },
            "add_or_remove_one with sampling full",
        ),
        (
            {"engine": "dp_sgd", "microbatch_size": 4},
            "microbatch_size=1 with engine dp_sgd",
        ),
        ({"noise_multiplier": Target(target_epsilon=3.0)}, "calibrate it first"),
        ({"num_records": 0}, "num_records >= 1"),
    ],
)
def test_what_no_theorem_covers_is_refused_in_a_sentence(options, reason):
    with refused(reason):
        mechanism(**options)


def test_sgd_is_no_mechanism_but_is_built():
    built = mechanism("sgd")
    assert not built.is_private
    assert built.effective_noise_multiplier_at(0) == 0.0
    for z in (0.0, 2.0):  # noise that it does not add
        loud = replace(built, noise_multiplier=z)
        assert (loud.is_private, loud.effective_noise_multiplier_at(0)) == (False, 0.0)
        assert loud.unaccounted == ("no noise is added (sgd)",)
    with refused(r"^unknown field privacy\.group_scale for engine sgd"):
        mechanism("sgd", group_scale="first_step")


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        *(("noise_multiplier", bad) for bad in (-0.5, math.nan, math.inf)),
        *(("delta", bad) for bad in (0.0, 1.0, 1.5)),
    ],
)
def test_numbers_out_of_range_are_refused(field, bad):
    with pytest.raises(ValidationError):
        PrivacyConfig(**{field: bad})


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("num_records", 0),
        ("num_records", 63),  # below the batch
        ("expected_batch_size", 0),
        ("expected_batch_size", 2_561),
        ("epochs", -1),
        ("stages", (1, -1)),
        ("num_workers", 0),
        ("num_microbatches", 0),
        ("microbatch_size", 0),
        ("max_records_per_group", 0),
        ("num_steps", -1),
        ("steps_per_epoch", 0),
        ("max_grad_norm", 0.0),
        ("max_grad_norm", 1e-22),
        ("max_grad_norm", INF),
        ("cap", 0.0),
        ("cap", math.inf),
        ("kind", "other"),
        *(
            ("noise_decay", bad)
            for bad in ((0.5,) * 29, (0.5, -0.1) * 15, (1.0, NAN) * 15)
        ),
        *(
            (f"{of}noise_multiplier", bad)
            for of in ("", "histogram_")
            for bad in (-1, NAN, INF)
        ),
        *(("delta", bad) for bad in (0.0, 1.0, 5.0)),
    ],
)
def test_no_way_makes_a_mechanism_with_a_number_out_of_range(field, bad):
    """Neither `replace` nor the class itself: a bad one once had an epsilon."""
    for engine in ("edp_sgd", "dp_sgd", "sgd"):
        built = mechanism(engine)
        named = "expected_batch_size" if bad == 63 else field
        with refused(rf"expected .*{named}"):
            replace(built, **{field: bad})
        values = {each.name: getattr(built, each.name) for each in fields(built)}
        with refused(rf"expected .*{named}"):
            Mechanism(**{**values, field: bad})


def test_the_smallest_numbers_are_allowed():
    """What no epoch has trained yet has a mechanism too."""
    built = mechanism(
        "dp_sgd", num_records=1, batch=1, workers=1, epochs=1, noise_multiplier=0.0
    )
    assert built.first(0).steps == 0
    assert replace(built, stages=(0, 1), epochs=1).steps == 1
    least = replace(built, cap=1.0, delta=1e-300, max_grad_norm=LEAST_GRAD_NORM)
    assert least.sample_rate == 1.0


def test_no_way_makes_a_mechanism_that_no_theorem_covers():
    for built, change in (
        (mechanism(), {"neighboring_relation": "add_or_remove_one"}),
        (mechanism(), {"sampling": "poisson"}),
        (mechanism(), {"num_microbatches": 4}),
        (mechanism("dp_sgd"), {"neighboring_relation": "replace_one"}),
    ):
        with refused("expected"):
            replace(built, **change)


def test_without_noise_nothing_is_private():
    silent = mechanism(noise_multiplier=0.0)
    assert not silent.is_private
    assert silent.effective_noise_multiplier_at(0) == 0.0
    assert silent.unaccounted == ("no noise is added (noise_multiplier 0)",)
    assert mechanism(noise_multiplier=1e-3).is_private


def test_reasons_add_up():
    built = replace(
        mechanism(
            noise_multiplier=0.0, reproducible_noise=True, group_scale="first_step"
        ),
        undeclared=("vocabulary read from private data",),
    )
    said = (
        "no noise is added (noise_multiplier 0)",
        "noise key public (reproducible_noise)",
    )
    scale = "alpha_k is the raw first gradient's (group_scale first_step)"
    bound = "alpha_k has no bound (group_scale.cap), noise is added after it"
    assert built.unaccounted == (*said, scale, *built.undeclared)
    assert replace(built, normalise="none").unaccounted == (
        *said,
        scale,
        bound,
        *built.undeclared,
    )
    assert replace(built, kind="prior").unaccounted == built.undeclared
    plain = replace(built, kind="plain", normalise="none").unaccounted
    assert plain == ("no noise is added (edp_sgd)", said[1], *built.undeclared)
    assert mechanism().unaccounted == ()
    assert mechanism(group_scale="first_step_noised").unaccounted == ()


def test_accounting_needs_no_torch():
    """Planning and `sweep epsilon` must answer on a machine without it, and quickly."""
    code = (
        "import sys, trainables.cards.card, trainables.config.calibrate\n"
        "from trainables.dp.accounting import calibration, certification, choose\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_refusal_says_no_number_that_was_counted_on_private_records():
    """Plans and reports keep the message."""
    config = parse({"engine": "dp_sgd", "training": {"expected_batch_size": 5_000}})
    with refused(r"training records \(2560\), got 5000"):
        build(config, num_records=2_560)
    counted = ("the number of training records was counted on the private records",)
    with refused(r"training records, got 5000") as refusal:
        build(config, num_records=2_560, undeclared=counted)
    assert "2560" not in str(refusal.value)
