"""Every record in every step: the Gaussian mechanism, T times."""

import math

import numpy as np

from tests.refusals import refused
from trainables.config.mechanism import build
from trainables.config.trial import parse
from trainables.dp.noise import SecretKey
from trainables.dp.sampling import sampler

N = 2_463


def config(**training):
    return parse(
        {
            "engine": "dp_sgd",
            "privacy": {"sampling": "full", "noise_multiplier": 6.0, "delta": 1e-5},
            "training": {"steps": 100, "evaluate_every": 20, **training},
        }
    )


def test_every_record_is_in_every_step_alone():
    mechanism = build(config(), num_records=30)
    assert (mechanism.steps, mechanism.steps_in(3)) == (100, 20)
    assert (mechanism.sample_rate, mechanism.num_microbatches) == (1.0, 30)
    draw = sampler(
        np.arange(100, 130), mechanism, seed=0, key=SecretKey(b"0" * 32)
    ).draw(2, 7)
    assert draw.records.tolist() == list(range(100, 130))
    assert draw.sizes.tolist() == [1] * 30


def test_where_micro_batches_are_shared_no_record_moves_another():
    """Two records share one of M = 4 micro-batches in a quarter of 2,000 keys,
    neighbours or M places apart: 6 standard deviations of a binomial, so a false alarm
    below 1e-8. In turn it would be never, and always, and a record less would move all
    behind it: sensitivity 2 M C, not 2 C.
    """
    fields = config(num_workers=4).model_dump()
    fields |= {"engine": "edp_sgd"}
    fields["privacy"] |= {"noise_calibration": "central", "microbatch_size": None}
    mechanism = build(parse(fields), num_records=16)
    assert (mechanism.num_microbatches, mechanism.sensitivity) == (4, 2.0)
    units = []
    for number in range(2_000):
        own = sampler(
            np.arange(16), mechanism, seed=0, key=SecretKey(number.to_bytes(32, "big"))
        )
        draw, again = own.draw(0, 0), own.draw(3, 1)
        assert np.array_equal(draw.records, again.records)
        units.append(draw.unit[np.argsort(draw.records)])
    shared = np.array(units)[:, [1, 4, 8]] == np.array(units)[:, :1]
    assert np.abs(shared.mean(0) - 0.25).max() < 6 * math.sqrt(0.25 * 0.75 / len(units))


def test_without_noise_members_join_their_micro_batches_in_turn():
    """The baseline's step is a function of its data alone, whatever the key."""
    fields = config(num_workers=4).model_dump() | {"engine": "sgd"}
    fields["privacy"] = {"sampling": "full", "microbatch_size": None}
    mechanism = build(parse(fields), num_records=16)
    own = sampler(np.arange(16), mechanism, seed=0, key=SecretKey(b"0" * 32)).draw(0, 0)
    assert own.records.tolist() == [n + 4 * k for n in range(4) for k in range(4)]
    assert own.unit.tolist() == sorted([0, 1, 2, 3] * 4)


def test_private_full_batches_have_a_declared_number_of_records():
    """M is n, which the noise of a released mean, its batch size and its card would
    tell.
    """
    fields = config().model_dump()
    fields["data"] = {"name": "json_lines", "path": "mine.jsonl"}
    with refused(r"expected data\.num_records to declare n .* got none"):
        parse(fields)
    fields["data"]["num_records"] = N
    assert build(parse(fields), num_records=N).num_microbatches == N
