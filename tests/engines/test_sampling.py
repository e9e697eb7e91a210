"""The laws of sampling that the accounting relies on. False-alarm rate of each
statistical check: 1e-6 a record, bin or total (see `engine_checks`).
"""

from dataclasses import replace

import engine_checks as checks
import numpy as np
import pytest
from engine_checks import mechanism
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refused
from trainables.dp.engines.engine import Setup, _in_order_of
from trainables.dp.noise import public_key
from trainables.dp.population import Population
from trainables.dp.sampling import SampledBatch, sampler
from trainables.system.communication import Alone

CENTRAL = {"noise_calibration": "central"}
KEY = public_key(0, "sampling")


@pytest.mark.parametrize("microbatch_size", [1, 2, 4])
def test_poisson_inclusions_are_independent_coins(microbatch_size):
    checks.check_poisson(
        mechanism(sampling="poisson", microbatch_size=microbatch_size, **CENTRAL)
    )


@pytest.mark.parametrize(
    ("records", "batch"), [(200, 16), (17, 16), (16, 16), (47, 8), (9, 8)]
)
@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("microbatch_size", [1, 2, None])
def test_shuffle_puts_each_record_in_one_step_of_an_epoch(
    records, batch, world_size, microbatch_size
):
    mech = mechanism(
        records=records,
        batch=batch,
        microbatch_size=microbatch_size,
        **(CENTRAL if microbatch_size else {}),
    )
    checks.check_shuffle(mech, world_size=world_size)


@pytest.mark.parametrize("microbatch_size", [1, 2, 8, 16])
def test_records_that_share_a_micro_batch_are_others_in_each_epoch(microbatch_size):
    """Also with every record in every step; each alone or all together, order changes
    nothing.
    """
    sizes = {
        "records": 16,
        "batch": 16,
        "workers": 1,
        "microbatch_size": microbatch_size,
    }
    drawn = sampled(mechanism(**sizes, **CENTRAL), 16)
    first, other = (drawn.draw(epoch, 0).records.tolist() for epoch in (0, 1))
    assert (first == other) == (microbatch_size in (1, 16))


def of_trial(mech, **how):
    """The sampler that an engine makes of its setup."""
    given = {"seed": 0, "key": KEY, "trial_id": "t", **how}
    setup = Setup(
        loader=None, ids=np.arange(200), learning_rate=1.0, comm=Alone(), **given
    )
    return setup.sampler_for(mech)


@pytest.mark.parametrize("sampling", ["poisson", "random_allocation"])
def test_coins_come_from_the_key_and_not_from_the_seed(sampling):
    """And change by the epoch."""
    mech = mechanism("dp_sgd", sampling=sampling)

    def records(epoch=0, mech=mech, **how):
        return of_trial(mech, **how).draw(epoch, 0).records.tolist()

    assert records() == records(seed=1)
    assert records(mech=mechanism()) != records(mech=mechanism(), seed=1), (
        "of shuffled epochs"
    )
    assert records() != records(1)
    for other in (
        {"key": public_key(1, "sampling")},
        {"trial_id": "u"},
        {"attempt": 1},
    ):
        assert records() != records(**other)


@pytest.mark.parametrize("sampling", ["poisson", "random_allocation"])
@pytest.mark.parametrize(
    ("records", "batch"), [(200, 16), (200, 144), (199, 60), (200, 20)]
)
def test_no_two_steps_of_a_trial_draw_by_the_same_coins(sampling, records, batch):
    """Also where n / B is no whole number, so that epochs differ in their number of
    steps. Of independent draws two would be equal with a chance far below 1e-20.
    """
    mech = mechanism(
        "dp_sgd", records=records, batch=batch, sampling=sampling, workers=1
    )
    drawn = sampled(mech, records)
    steps = [
        (epoch, step) for epoch in range(5) for step in range(mech.steps_in(epoch))
    ]
    members = [tuple(sorted(drawn.draw(*each).records.tolist())) for each in steps]
    assert len(steps) >= 5 * (records // batch)
    assert len(set(members)) == len(steps)


def sampled(mech, num=200, **how):
    return sampler(np.arange(num), mech, **{"seed": 0, "key": KEY, **how})


def steps_of(mech, epochs, **how):
    """int[epochs, n]: the step of each record; fails unless each is in exactly one."""
    drawn = sampled(mech, mech.num_records, **how)
    steps = np.full((epochs, mech.num_records), -1)
    for epoch in range(epochs):
        for step in range(mech.steps_in(epoch)):
            records = drawn.draw(epoch, step).records
            assert (steps[epoch, records] == -1).all(), "no record twice in an epoch"
            steps[epoch, records] = step
    assert (steps >= 0).all(), "every record in every epoch"
    return steps


@pytest.mark.parametrize("microbatch_size", [1, 4])
def test_random_allocation_is_a_fair_die_for_each_record(microbatch_size):
    """Uniform over steps, independent between records and between epochs: the pairs of
    two records in one epoch, and of one record in two epochs, fall as often in the same
    step as two dice do.
    """
    mech = mechanism(
        records=200,
        sampling="random_allocation",
        microbatch_size=microbatch_size,
        **CENTRAL,
    )
    epochs, num_steps = 200, mech.steps_in(0)
    assert num_steps == 13
    steps = steps_of(mech, epochs)
    for step in range(num_steps):
        checks._binomial(int((steps == step).sum()), steps.size, 1 / num_steps)
    for same in (
        steps[:, :100] == steps[:, 100:],
        steps[:-1:2] == steps[1::2],
        steps[:, 0::2] == steps[:, 1::2],
    ):
        checks._binomial(int(same.sum()), same.size, 1 / num_steps)
    # A permutation would put at most ceil(n / steps) records in a step: dice do not.
    assert (
        max(np.bincount(row, minlength=num_steps).max() for row in steps)
        > 200 // 13 + 5
    )
    shuffled = steps_of(
        replace(mech, sampling="shuffle", neighboring_relation="replace_one"), epochs
    )
    with pytest.raises(
        AssertionError
    ):  # it rejects a permutation, whose records avoid each other
        checks._binomial(
            int((shuffled[:, :, None] == shuffled[:, None, :]).sum() - shuffled.size),
            200 * 199 * epochs,
            1 / num_steps,
        )


def test_a_record_less_moves_no_other_one():
    """What add-or-remove needs, and a permutation has not: the others' dice are their
    own.
    """
    mech = mechanism("dp_sgd", records=200, sampling="random_allocation")
    key = public_key(3, "sampling")
    whole = sampled(mech, key=key)
    less = sampled(mech, 199, key=key)
    for step in range(mech.steps_in(0)):
        there = [r for r in whole.draw(0, step).records.tolist() if r != 199]
        assert there == less.draw(0, step).records.tolist()


@pytest.mark.parametrize("microbatch_size", [1, 2])
@pytest.mark.parametrize("sampling", ["poisson", "shuffle", "random_allocation"])
def test_the_processes_parts_make_up_the_step(sampling, microbatch_size):
    """Every unit is whole on one process, whatever their number."""
    mech = mechanism(sampling=sampling, microbatch_size=microbatch_size, **CENTRAL)
    whole = sampled(mech).draw(1, 2)
    units = {tuple(whole.records[whole.unit == u]) for u in range(whole.num_units)}
    parts = set()
    for rank in range(4):
        part = sampled(mech, rank=rank, world_size=4).draw(1, 2)
        assert part.num_drawn == len(whole.records)
        assert set(part.worker.tolist()) <= {rank}
        assert len(part.worker) == len(part.sizes)
        assert microbatch_size == 1 or len(part.worker) == mech.num_microbatches // 4
        parts |= {tuple(part.records[part.unit == u]) for u in range(part.num_units)}
    assert parts == units
    with refused(r"divide training.num_workers"):
        sampled(mech, world_size=3)


@pytest.mark.parametrize("sampling", ["poisson", "shuffle", "random_allocation"])
def test_a_group_is_sampled_and_clipped_as_one(sampling):
    """All records of a group, at most 3 of them, in one unit of one step."""
    groups = np.repeat(np.arange(40), np.arange(40) % 7 + 1)
    mech = mechanism(
        "dp_sgd",
        records=40,
        batch=8,
        unit="group",
        max_records_per_group=3,
        sampling=sampling,
    )
    drawn = sampled(mech, len(groups), groups=groups)
    seen = {}
    for step in range(30 if sampling == "poisson" else mech.steps_in(0)):
        draw = drawn.draw(0, step)
        for unit in range(draw.num_units):
            members = draw.records[draw.unit == unit]
            (group,) = set(groups[members].tolist())
            assert len(set(members.tolist())) == len(members) == min(3, group % 7 + 1)
            assert draw.weights[draw.unit == unit].tolist() == pytest.approx(
                [1 / len(members)] * len(members)
            )
            seen.setdefault(group, set()).add(tuple(sorted(members.tolist())))
    assert all(len(choices) == 1 for choices in seen.values()), (
        "chosen beforehand, once"
    )
    other = sampled(mech, len(groups), seed=1, groups=groups)
    assert set(other.population.records) != set(drawn.population.records), (
        "by the public seed"
    )
    if sampling != "poisson":
        assert sorted(seen) == list(range(40))


def test_which_records_of_a_group_count_does_not_depend_on_other_groups():
    ids, groups = np.arange(100), np.arange(100) // 10
    both = Population(ids, groups=groups, max_records_per_group=2)
    one = Population(ids[:10], groups=groups[:10], max_records_per_group=2)
    assert set(one.records.tolist()) == set(both.records[:2].tolist())


def test_which_records_of_a_group_count_does_not_depend_on_where_they_stand():
    """A record more, before all others, moves every id by one and no choice."""
    keys, groups = np.random.default_rng(0).integers(2**62, size=60), np.arange(60) // 6
    before = Population(
        np.arange(60), groups=groups, text_keys=keys, max_records_per_group=2
    )
    after = Population(
        np.arange(61),
        groups=np.concatenate([[10], groups]),
        text_keys=np.concatenate([[5], keys]),
        max_records_per_group=2,
    )
    assert (before.records + 1).tolist() == after.records[:20].tolist()
    by_place = Population(np.arange(60) + 1, groups=groups, max_records_per_group=2)
    assert by_place.records.tolist() != (before.records + 1).tolist()


def test_records_that_stand_alone_are_spread_over_the_workers():
    """As many on each as possible, in the order that they were drawn."""
    mech = mechanism("dp_sgd", workers=4, batch=8, records=40, sampling="shuffle")
    assert sampled(mech, 40).draw(0, 0).worker.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_repeated_records_and_groups_that_are_not_theirs_are_refused():
    with refused("each training record once, got 1 repeats"):
        Population(np.array([1, 2, 2]))
    with refused(r"exactly with privacy.unit=group"):
        sampled(mechanism(), 9, groups=np.arange(9))
    with refused("expected 9 groups, got 8"):
        Population(np.arange(9), groups=np.arange(8))


def test_a_seed_and_a_key_give_the_same_batches_in_every_version():
    """Golden values: a trial can be taken up again, and repeated, by a later
    version.
    """
    key = public_key(0, "golden")
    small = {"records": 40, "batch": 8, "workers": 2}
    shuffled = sampled(mechanism(**small), 40, seed=3, key=key).draw(1, 2)
    assert shuffled.records.tolist() == [31, 33, 10, 7, 16, 6, 32, 19]
    assert shuffled.unit.tolist() == [0] * 4 + [1] * 4
    mech = mechanism(sampling="poisson", **small)
    coins = {"key": key, "trial_id": "t", "attempt": 2}
    drawn = sampled(mech, 40, **coins).draw(1, 2)
    assert drawn.records.tolist() == [18, 16, 15, 4, 2, 34]
    assert drawn.unit.tolist() == [0, 0, 0, 0, 1, 1]
    mech = mechanism(
        sampling="random_allocation", microbatch_size=2, **small, **CENTRAL
    )
    drawn = sampled(mech, 40, **coins).draw(1, 2)
    assert drawn.records.tolist() == [30, 34, 38, 2, 15, 36, 23, 11, 12, 19]
    assert drawn.unit.tolist() == [0, 0, 0, 1, 1, 1, 2, 3, 3, 3]
    drawn = sampled(replace(mech, sampling="full", num_records=8), 8, **coins).draw(
        1, 2
    )
    assert drawn.records.tolist() == [5, 6, 4, 7, 0, 1, 2, 3]
    assert drawn.unit.tolist() == [0, 0, 2, 2, 3, 3, 3, 3]
    assert (drawn.worker.tolist(), drawn.sizes.tolist()) == ([0, 0, 1, 1], [2, 0, 2, 4])
    grouped = Population(
        np.arange(30), groups=np.arange(30) // 6, max_records_per_group=2, seed=4
    )
    assert grouped.records.tolist() == [0, 5, 7, 6, 14, 13, 23, 22, 28, 27]


@given(
    sizes=st.one_of(
        st.lists(st.just(1), min_size=1, max_size=9),
        st.lists(st.integers(0, 4), min_size=1, max_size=6),
        st.lists(st.integers(2, 4), min_size=1, max_size=6),
    ),
    seed=st.integers(0, 2**31),
)
def test_records_that_pass_in_the_order_of_their_lengths_stay_in_their_units(
    sizes, seed
):
    """And each unit with its worker; a unit's own records are in that order."""
    coins = np.random.default_rng(seed)
    sizes = np.array(sizes, dtype=np.int64)
    unit = np.repeat(np.arange(len(sizes)), sizes)
    records = coins.permutation(100)[: len(unit)]
    workers = coins.integers(0, 3, len(sizes))
    draw = SampledBatch(records, unit, sizes, workers, len(records))
    values = coins.integers(0, 5, len(records))
    value_of = dict(zip(records.tolist(), values.tolist(), strict=True))

    def by_unit(draw):
        return sorted(
            (int(worker), sorted(draw.records[draw.unit == at].tolist()))
            for at, worker in enumerate(draw.worker)
        )

    found = _in_order_of(values, draw)
    assert by_unit(found) == by_unit(draw)
    assert (
        found.sizes.tolist() == np.bincount(found.unit, minlength=len(sizes)).tolist()
    )
    lines = [found.records[found.unit == at] for at in range(len(sizes))]
    if (sizes == 1).all():
        lines = [found.records]
    for line in lines:
        in_line = [value_of[int(record)] for record in line]
        assert in_line == sorted(in_line)
