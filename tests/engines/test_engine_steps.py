"""The release of a step, and the engines' handling of unusual input."""

import math
from contextlib import contextmanager
from dataclasses import replace

import engine_checks as checks
import numpy as np
import pytest
import torch
from engine_checks import (
    WAYS,
    WIDTHS,
    Meeting,
    PlainGradients,
    engine_on,
    gradients,
    mechanism,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.refusals import refused
from tests.whole_trial.naive import sum_of_clipped
from trainables import catalogue
from trainables.dp import per_record
from trainables.dp.engines._audit_model import ChosenRecords
from trainables.dp.engines._physical_batches import passes
from trainables.dp.engines.configs import DpSgdConfig
from trainables.dp.engines.engine import Setup
from trainables.dp.engines.step_audit import audit_step
from trainables.dp.noise import SecretKey, public_key
from trainables.errors import TrialFailed
from trainables.system.communication import Alone

CENTRAL = {"noise_calibration": "central"}
# (engine, privacy) of every combination that is offered
OFFERED = [
    ("dp_sgd", {}),
    ("dp_sgd", {"sampling": "shuffle"}),
    ("dp_sgd", {"sampling": "random_allocation"}),
    ("edp_sgd", {}),
    ("edp_sgd", {"sampling": "poisson"}),
    ("edp_sgd", {"sampling": "random_allocation"}),
    ("edp_sgd", CENTRAL),
    ("edp_sgd", {**CENTRAL, "microbatch_size": 2}),
    ("edp_sgd", {**CENTRAL, "microbatch_size": 1, "sampling": "poisson"}),
]
UNITS = {
    1: [[0], [1], [2], [3], [4]],
    2: [[0, 1], [2], [], [3, 4], [5, 6]],
    4: [[0, 1, 2, 3], [4]],
}


class Noting(ChosenRecords):
    """`read` has the ids of each batch."""

    def __init__(self, table):
        super().__init__(table)
        self.read = []

    def batch(self, ids):
        self.read.append(ids.tolist())
        return super().batch(ids)


@pytest.mark.parametrize(("engine", "privacy"), OFFERED)
@pytest.mark.parametrize("group_scale", ["none", "public"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("physical", [None, 3, 1])
def test_a_step_releases_the_sum_of_clipped_units_over_a_fixed_number(
    engine, privacy, group_scale, way, physical
):
    mech = mechanism(engine, group_scale=group_scale, **privacy)
    units = UNITS[mech.microbatch_size]
    table = gradients(8, scale=2.0)  # some gradients above C, some below
    checks.check_sum(mech, table, units, way=way, physical_batch_size=physical)


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_one_lone_unit_a_process_and_many_processes_give_the_same_sum(world_size):
    """Four workers with a micro-batch each: one, two or four processes, the same
    update.
    """
    mech = replace(mechanism(), noise_multiplier=0.0)
    table = gradients(200, scale=3.0)

    def work(comm):
        engine = engine_on(mech, table, comm=comm)
        engine.run_epoch(0)
        return checks.weights_of(engine)

    alone = engine_on(mech, table)
    alone.run_epoch(0)
    expected = checks.weights_of(alone)
    for weights in Meeting(world_size).run(work):
        assert torch.allclose(weights, expected, atol=1e-6)


def test_sgd_takes_the_mean_gradient_of_what_was_drawn():
    table = gradients(200, scale=50.0)
    engine = engine_on(mechanism("sgd"), table, [[0, 1], [2]], physical_batch_size=2)
    stats = engine.step(0, 0)
    assert torch.allclose(engine.released, table[:3].mean(0), atol=1e-5)
    assert float(stats.norm) == pytest.approx(float(engine.released.norm()), rel=1e-5)
    whole = engine_on(mechanism("sgd"), table, [[0, 1], [2]])
    whole.step(0, 0)
    found, expected = (float(made.step(0, 1).loss) for made in (engine, whole))
    assert found == pytest.approx(expected, rel=1e-4) != 0.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "units", [[[0], [1], [2]], [[1]]], ids=["among others", "alone"]
)
def test_a_gradient_that_is_not_finite_is_zeroed_noised_and_counted(bad, way, units):
    table = gradients(4)
    table[1, 7] = bad
    mech = mechanism("dp_sgd", noise_multiplier=1e-3)
    engine = engine_on(mech, table, units, model=WAYS[way](WIDTHS))
    stats = engine.step(0, 0)
    others = [unit for unit in units if unit != [1]]
    expected = checks.reference_sum(table, others, bound=1.0, alpha=[1.0] * 3)
    noise = engine.released.double() * mech.num_microbatches - expected
    assert int(stats.nonfinite) == 1
    assert torch.isfinite(engine.released).all()
    assert 0.5e-3 < float(noise.std()) < 2e-3


def test_a_parameter_without_gradient_is_noised_too():
    class Idle(PlainGradients):
        def __init__(self):
            super().__init__(WIDTHS)
            self.unused = nn.Parameter(torch.zeros(500))

    engine = engine_on(mechanism("dp_sgd"), gradients(4), [[0], [1]], model=Idle())
    engine.step(0, 0)
    place = engine.layout.segment(engine.layout.names.index("unused"))
    assert 0.8 < float(engine.released[place].std()) * 16 < 1.2


def test_sparse_and_tied_parameters_are_in_the_norm_once():
    class Tied(nn.Module):
        """Token vectors, sparse, whose table is also the output: the gradient is of
        both uses.
        """

        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5, 3, sparse=True)
            self.table.weight.data = torch.arange(15.0).reshape(5, 3)
            self.out = nn.Linear(3, 5, bias=False)
            self.out.weight = self.table.weight

        def losses(self, batch):
            return self.out(self.table(batch)).sum(1)

    class Tokens:
        def batch(self, ids):
            return torch.from_numpy(ids)

    mech = replace(mechanism("dp_sgd", max_grad_norm=2.0), noise_multiplier=0.0)
    units = [[1], [3]]
    engine = engine_on(mech, range(5), units, model=Tied(), loader=Tokens())
    assert engine.layout.names == ("table.weight",)
    expected, _ = sum_of_clipped(
        Tied().double(), Tokens(), units, max_grad_norm=2.0, group_scale=torch.ones(1)
    )
    engine.step(0, 0)
    assert torch.allclose(engine.released.double() * 16, expected, atol=1e-5)
    alone = Tied()
    alone.out = nn.Linear(3, 5)
    engine = engine_on(
        mechanism("dp_sgd"), range(5), units, model=alone, loader=Tokens()
    )
    engine.step(0, 0)  # with noise, and so compared with its definition
    assert engine._largest_difference > 0


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(4),
        nn.SyncBatchNorm(4),
        nn.InstanceNorm1d(4, track_running_stats=True),
    ],
)
def test_a_layer_through_which_records_meet_is_refused_by_name(layer):
    model = PlainGradients(WIDTHS)
    model.norm = layer
    with refused(f"{type(layer).__name__} at norm"):
        engine_on(mechanism(), gradients(4), model=model)
    model.norm = nn.InstanceNorm1d(4)  # keeps no statistics
    engine_on(mechanism(), gradients(4), model=model)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("name", ["first", "last", "frozen"])
def test_a_tensor_that_no_step_trains_and_a_pass_changes_stops_the_trial(
    replaced, name
):
    """A new tensor under the old name carries as much as an old one that is written."""

    class Counting(PlainGradients):
        def __init__(self):
            super().__init__(WIDTHS)
            self.register_buffer("first", torch.zeros(1))
            self.register_buffer("last", torch.zeros(1))
            self.frozen = nn.Parameter(torch.zeros(1), requires_grad=False)

        def losses(self, batch):
            mean = getattr(self, name)
            if replaced:
                new = mean * 0.9 + batch.mean()
                setattr(
                    self, name, nn.Parameter(new, False) if name == "frozen" else new
                )
            else:
                mean += batch.mean()
            return super().losses(batch)

    engine = engine_on(mechanism(), gradients(4), [[0, 1]], model=Counting())
    with refused(f"got {name} changed", TrialFailed):
        engine.step(0, 0)


@pytest.mark.parametrize("way", WAYS)
def test_the_figures_of_a_step_count_what_was_clipped(way):
    """One norm that is not finite, and 0.5, 2 and 4 at C 1."""
    table = gradients(4)
    table *= (torch.tensor([1.0, 0.5, 2.0, 4.0]) / table.norm(dim=1)).unsqueeze(1)
    table[0, 0] = math.inf
    model = WAYS[way](WIDTHS)
    mech = mechanism("dp_sgd", max_grad_norm=1.0)
    stats = engine_on(mech, table, [[0], [1], [2], [3]], model=model).step(0, 0)
    counts = [
        int(n) for n in (stats.clipped, stats.nonfinite, stats.units, stats.records)
    ]
    assert counts == [2, 1, 4, 4]
    assert int(stats.lost) == 1
    assert float(stats.norm) == pytest.approx(6.5, rel=1e-4)
    assert not stats.vector().requires_grad


def test_a_missing_worker_aborts_the_step_before_adam_sees_it():
    class Lossy(Alone):
        """A second process whose share never arrives."""

        world_size = 2

    engine = engine_on(mechanism(), gradients(200), comm=Lossy())
    with refused("shares of 4 workers in the sum, got 2", TrialFailed):
        engine.step(0, 0)
    assert not checks.weights_of(engine).any()


def test_no_step_is_taken_twice_with_one_key():
    engine = engine_on(mechanism(), gradients(200))
    engine.step(0, 3)
    with refused("its noise was used", TrialFailed):
        engine.step(0, 3)


@pytest.mark.parametrize("place", [0, -1])
def test_workers_that_start_apart_are_refused(place):
    """By each of them, also in one number of one parameter, however small beside
    another.
    """

    def work(comm):
        model = PlainGradients(WIDTHS)
        model.weights[place].data[1] = 2.0**25
        model.weights[place].data[place] -= comm.rank
        with refused("equal weights", TrialFailed):
            engine_on(mechanism(), gradients(200), model=model, comm=comm)

    Meeting(2).run(work)


@pytest.mark.parametrize(
    ("units", "physical", "passes_read"),
    [
        ([[0], [1], [2], [3]], None, [[0, 1, 2, 3]]),
        ([[0], [1], [2], [3]], 2, [[3, 1], [2, 0]]),
        ([[0, 1], [2, 3]], 2, [[1, 0], [3, 2]]),
        ([[0, 1], [], [2, 3, 1]], 2, [[1, 0], [3, 1], [2]]),
    ],
)
def test_long_records_pass_together_and_units_stay_apart(units, physical, passes_read):
    class Loader(Noting):
        def lengths(self, ids):
            return np.array([1, 3, 2, 4])[ids]

    loader, found = Loader(gradients(4, scale=3.0)), []
    for limit in (physical, None):
        how = {"loader": loader, "physical_batch_size": limit, "compares": False}
        found.append(engine_on(mechanism(), range(4), units, **how).step(0, 0).vector())
    assert loader.read[: len(passes_read)] == passes_read
    torch.testing.assert_close(*found, rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("decay", catalogue.names("learning_rates"))
def test_the_rate_decays_with_the_share_of_the_steps_that_are_taken(decay):
    mech = mechanism()
    engine = engine_on(mech, gradients(200), learning_rate_decay=decay)
    factor = catalogue.entry("learning_rates", decay).factor
    for epoch, step in ((0, 0), (1, 3), (2, 1)):
        engine.step(epoch, step)
        share = (mech.steps_until(epoch) + step) / mech.steps
        assert engine._optimizer.learning_rate == pytest.approx(1e-3 * factor(share))


@pytest.mark.parametrize("normalise", ["unit", "none"])
@pytest.mark.parametrize("group_scale", ["first_step_noised", "first_step"])
def test_alpha_comes_from_the_first_step(group_scale, normalise):
    """first_step: from the raw mean gradient. first_step_noised: from what the step
    released. Not normalised it is the norm itself.
    """
    scale = {"name": group_scale, "normalise": normalise}
    mech = mechanism(**CENTRAL, group_scale=scale, noise_multiplier=0.1)
    table = gradients(200) * checks.by_group([4096 / w**2 for w in WIDTHS])
    engine = engine_on(mech, table, [[0, 1], [2, 3]])
    engine.step(0, 0)
    raw = (table[:2].mean(0) + table[2:4].mean(0)) / mech.num_microbatches
    gradient = raw if group_scale == "first_step" else engine.released
    norms = torch.tensor([float(part.norm()) for part in gradient.split(list(WIDTHS))])
    found = engine.group_scale.float()
    expected = norms / norms.norm() if normalise == "unit" else norms
    assert torch.allclose(found, expected, rtol=1e-4)
    table[:, : WIDTHS[0]] *= 3.0  # what later steps read changes no scale
    engine.step(0, 1)
    assert torch.equal(engine.group_scale.float(), found)


def test_a_public_alpha_keeps_to_the_declared_bound():
    scale = {"name": "public", "normalise": "none"}
    free = engine_on(
        mechanism(group_scale=scale), gradients(4), public_batch=gradients(3)
    )
    norms = [float(part.norm()) for part in gradients(3).mean(0).split(list(WIDTHS))]
    assert free.group_scale.tolist() == pytest.approx(norms, rel=1e-5)
    cap = float(free.group_scale.median())
    mech = mechanism(group_scale={**scale, "cap": cap})
    engine = engine_on(mech, gradients(4), public_batch=gradients(3))
    assert torch.equal(engine.group_scale, free.group_scale.clamp(max=cap))
    assert float(free.group_scale.max()) > cap
    with refused("public batch"):
        engine_on(mech, gradients(4))


@pytest.mark.parametrize(("engine", "privacy"), [*OFFERED, ("sgd", {})])
def test_a_restored_engine_continues_identically(engine, privacy):
    scale = {} if engine == "sgd" else {"group_scale": "first_step_noised"}
    mech = mechanism(engine, **privacy, **scale)
    table = gradients(200)
    first = engine_on(mech, table)
    first.run_epoch(0)
    second = engine_on(mech, table)
    second.model.load_state_dict(first.model.state_dict())
    second.load_state_dict({k: v.clone() for k, v in first.state_dict().items()})
    assert first.run_epoch(1) == second.run_epoch(1)
    assert torch.equal(*map(checks.weights_of, (first, second)))


def test_an_epochs_figures_are_over_all_processes():
    mech = mechanism(max_grad_norm=0.1)
    table = gradients(200)
    table[0] = math.nan
    alone = engine_on(mech, table).run_epoch(0)
    for figures in Meeting(2).run(
        lambda comm: engine_on(mech, table, comm=comm).run_epoch(0)
    ):
        assert figures["nonfinite_gradients"] == alone["nonfinite_gradients"] == 1
        assert figures["clip_fraction"] == pytest.approx(alone["clip_fraction"])
        assert math.isfinite(figures["train_loss"])


@pytest.mark.parametrize(
    ("engine", "bad"), [("dp_sgd", 100), ("dp_sgd", 200), ("sgd", 1), ("sgd", 200)]
)
def test_what_is_not_finite_has_no_part_in_an_epochs_means(engine, bad):
    """Counted as losses and norms of 0, it made a diverged model look perfect."""
    table = gradients(200)
    found = engine_on(mechanism(engine), table).run_epoch(0)
    table[:bad] = math.nan
    # A private trial of such records alone has diverged, and is ended by the check of
    # its clipping.
    broken = engine_on(mechanism(engine), table, compares=False).run_epoch(0)
    assert found["nonfinite_gradients"] == 0 != found["train_loss"]
    if bad == 200:
        assert math.isnan(broken["train_loss"])
        assert math.isnan(broken["gradient_norm"])
    else:
        assert math.isfinite(broken["train_loss"])
        assert broken["gradient_norm"] == pytest.approx(found["gradient_norm"], rel=0.2)
        assert engine == "dp_sgd" or broken["nonfinite_gradients"] == bad


@pytest.mark.parametrize("engine", ["sgd", "edp_sgd", "dp_sgd"])
def test_a_model_learns_the_number_of_a_step_before_it_reads_a_record(engine):
    """Dropout is pinned to it, so that a replay of the step draws the same masks. Own
    code is compared deeply after the last step of an epoch.
    """
    happened, deeply = [], []

    class Watching(checks.ChosenGradients):
        @contextmanager
        def watched(self, *, deep):
            deeply.append(deep)
            yield

        def begin_step(self, epoch, step):
            happened.append((epoch, step))

        def losses(self, batch):
            happened.append("losses")
            return super().losses(batch)

    mech = mechanism(engine)
    made = engine_on(mech, gradients(4), [[0], [1]], model=Watching(WIDTHS))
    places = [
        (epoch, step) for epoch in (0, 1) for step in (0, mech.steps_in(epoch) - 1)
    ]
    for place in places:
        made.step(*place)
    assert [each for each in happened if each != "losses"] == places
    assert happened[0] == (0, 0)
    assert happened[1] == "losses"
    assert deeply == ([] if engine == "sgd" else [False, True] * 2)


def test_an_engine_is_refused_another_ones_mechanism():
    setup = Setup(
        loader=None,
        ids=np.arange(9),
        learning_rate=1.0,
        comm=Alone(),
        key=public_key(0, "t"),
    )
    with refused("engine dp_sgd, got one of edp_sgd"):
        DpSgdConfig.make(PlainGradients(WIDTHS), mechanism(), setup)


@given(
    sizes=st.lists(st.integers(0, 6), max_size=6),
    limit=st.none() | st.integers(1, 7),
    apart=st.booleans(),
)
def test_every_record_is_in_one_pass_with_its_unit(sizes, limit, apart):
    """No pass is empty or over the limit; whole units are whole, pieces end with their
    unit.
    """
    pairs = passes(
        checks.draw_of([[1, 2], [3, 4], [5, 6], [7, 8]]), limit=4, units_apart=False
    )
    assert [each.stop for each in pairs] == [4, 8], "as many together as fit"
    ends = np.cumsum(sizes).tolist()
    draw, after = checks.draw_of([[0] * size for size in sizes]), 0
    for each in passes(draw, limit=limit, units_apart=apart):
        assert each.start == after < each.stop
        after = each.stop
        assert limit is None or each.stop - each.start <= limit
        held = [n for n in range(each.first, each.last) if sizes[n]]
        assert (held[0], held[-1]) == (each.first, each.last - 1)
        if each.whole:
            assert each.ends
            assert (each.start, each.stop) == (
                ends[held[0]] - sizes[held[0]],
                ends[held[-1]],
            )
            assert len(held) == 1 or not apart
        else:
            assert sizes[each.first] > limit
            assert each.ends == (each.stop == ends[each.first])
    assert after == sum(sizes)


@pytest.mark.parametrize(
    ("engine", "privacy"),
    [
        *OFFERED,
        *(
            ("edp_sgd", {"noise_calibration": calibration, **scale})
            for calibration in ("paper", "central")
            for scale in (
                {"group_scale": {"name": "public", "normalise": "none", "cap": 0.9}},
                {
                    "group_scale": {
                        "name": "first_step_noised",
                        "normalise": "none",
                        "cap": 1.5,
                    }
                },
                {"group_scale": "first_step_noised"},
            )
        ),
    ],
)
def test_the_step_keeps_its_claim(engine, privacy):
    """The audit's interval holds the claim and passes it; without a group scale it is
    tight.
    """
    audit = audit_step(mechanism(engine, **privacy), calls=240)
    assert audit.passed
    assert audit.interval[0] < audit.claimed or "group_scale" in privacy
    assert audit.claimed < audit.interval[1]
    assert audit.epsilon_lower_bound <= audit.epsilon_claimed


def test_the_audit_runs_the_clipping_by_torch_func(monkeypatch):
    """It passes as it is, and finds out a clip that is too large."""
    mech = mechanism("dp_sgd")
    assert audit_step(mech, calls=240, by_record=True).passed
    real = per_record.clipped_sum

    def loose(*parts, max_grad_norm, **fields):
        return real(*parts, max_grad_norm=2 * max_grad_norm, **fields)

    monkeypatch.setattr(per_record, "clipped_sum", loose)
    assert audit_step(mech, calls=240).passed  # by the books
    assert not audit_step(mech, calls=240, by_record=True).passed


def test_an_audit_needs_noise():
    with refused("with noise and a bound on alpha_k to audit"):
        audit_step(mechanism("sgd"))


def test_a_fresh_key_gives_fresh_noise():
    table = gradients(4)
    released = []
    for secret in (b"a" * 32, b"b" * 32):
        engine = engine_on(mechanism(), table, [[]], key=SecretKey(secret))
        engine.step(0, 0)
        released.append(engine.released.clone())
    checks._uncorrelated(*released)


@pytest.mark.parametrize("sampling", ["full", "poisson"])
@pytest.mark.parametrize("physical", [None, 3])
def test_a_full_batch_is_collated_once(sampling, physical):
    """And steps are those of an engine whose batches are made anew each time."""
    mech = replace(
        mechanism("dp_sgd", records=8, batch=4, sampling=sampling), noise_multiplier=0.0
    )
    loader, how = (
        Noting(gradients(8)),
        {"physical_batch_size": physical, "optimizer": "momentum"},
    )
    engines = [
        engine_on(mech, range(8), loader=each, **how)
        for each in (loader, Noting(loader.table))
    ]
    for epoch in range(3):
        engines[1]._last = None
        for engine in engines:
            engine.step(epoch, 0)
        assert torch.equal(engines[0].released, engines[1].released)
    if sampling == "full":
        assert loader.read == (
            [list(range(8))] if physical is None else loader.read[:3] * 3
        )
