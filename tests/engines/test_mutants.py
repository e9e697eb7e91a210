"""Mutants: each breaks the privatised step in one place, and the named check must notice.

A mutant that no check notices fails here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import engine_checks as checks
import numpy as np
import pytest
import torch
from engine_checks import WIDTHS, PlainGradients, alphas, change, gradients, mechanism
from mutants_of_parts import ROWS

from trainables.engines import _engine, _passes, _private, audit_step
from trainables.engines._passes import Pass
from trainables.layers import bookkeeping
from trainables.privacy import clipping, sampling, scaling
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.noise import SecretKey, add_noise_

C = 1.5
Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutant:
    what: str
    breaks: Callable[[Patch], None]
    check: Callable[[], None]
    noticed_by: str  # the test that runs the same check on the unbroken code


def _audit(engine: str = "edp_sgd", **privacy: Any) -> Callable[[], None]:
    def check() -> None:
        audit = audit_step(mechanism(engine, max_grad_norm=C, **privacy), calls=240)
        assert audit.passed, audit

    return check


def _noise_scale(std: float, engine: str = "edp_sgd", **privacy: Any) -> Callable[[], None]:
    return lambda: checks.check_noise_scale(mechanism(engine, **privacy), [std] * 3)


def _alpha_noise() -> None:
    mech = mechanism(noise_calibration="central", group_scale="public")
    checks.check_noise_scale(mech, alphas(gradients(4)))


def _sum(units: list[list[int]], engine: str = "dp_sgd", **how: Any) -> Callable[[], None]:
    setup = {k: how.pop(k) for k in ("physical_batch_size", "model") if k in how}
    scale = how.pop("scale", 3.0)
    mech = mechanism(engine, max_grad_norm=C, **how)

    def check() -> None:
        model = setup.get("model")
        built = {**setup, "model": model() if model else None}
        checks.check_sum(mech, gradients(8, scale=scale), units, **built)

    return check


def _sensitivity(books: bool) -> Callable[[], None]:
    """A record of length 1e3 C is added by itself, or turns a micro-batch around."""

    def check() -> None:
        table = gradients(4, scale=1e3)
        table[1] = -3 * table[0]
        model = None if books else (lambda: PlainGradients(WIDTHS))
        mech = mechanism("dp_sgd")
        assert change(mech, table, [[2]], [[2], [0]], model=model) <= mech.sensitivity * (1 + 1e-4)
        mech = mechanism(sampling="poisson")
        moved = change(mech, table, [[0], [2]], [[0, 1], [2]], model=model)
        assert moved <= mech.sensitivity * (1 + 1e-4)

    return check


def _nonfinite() -> None:
    table = gradients(4)
    table[1] = math.nan
    for units in ([[0], [1]], [[1]]):
        engine = checks.engine_on(mechanism("dp_sgd"), table, units, model=PlainGradients(WIDTHS))
        stats = engine.step(0, 0)
        assert int(stats.nonfinite) == 1
        assert torch.isfinite(engine.released).all()


def _noisy_alpha() -> None:
    """Two batches; noise so large that what is released is the same to four digits."""
    mech = mechanism(
        noise_calibration="central", group_scale="first_step_noised", noise_multiplier=1e6
    )
    table = torch.zeros(2, sum(WIDTHS))
    table[0, 0] = table[1, -1] = 1.0
    found = []
    for row in (0, 1):
        engine = checks.engine_on(mech, table, [[row]])
        engine.step(0, 0)
        found.append(engine.group_scale)
    assert torch.allclose(*found, rtol=1e-3)


def _raw_alpha_is_marked() -> None:
    assert mechanism(group_scale="first_step").unaccounted
    assert not mechanism(group_scale="first_step_noised").unaccounted


def _idle_parameter_is_noised() -> None:
    model = PlainGradients(WIDTHS)
    model.idle = torch.nn.Parameter(torch.zeros(100))
    engine = checks.engine_on(mechanism(), gradients(2), [[0]], model=model)
    engine.step(0, 0)
    place = engine.layout.segment(engine.layout.names.index("idle"))
    assert float(engine.released[place].std()) > 0


def _missing_share() -> None:
    class Lossy(checks.Alone):
        world_size = 2

    engine = checks.engine_on(mechanism(), gradients(200), comm=Lossy())
    with pytest.raises(Exception, match="shares of 4 workers"):
        engine.step(0, 0)


def _replay() -> None:
    engine = checks.engine_on(mechanism(), gradients(200))
    engine.step(0, 0)
    with pytest.raises(Exception, match="its noise was used"):
        engine.step(0, 0)


def _buffers() -> None:
    class Counting(PlainGradients):
        def losses(self, batch: torch.Tensor) -> torch.Tensor:
            self.seen += 1
            return super().losses(batch)

    model = Counting(WIDTHS)
    model.register_buffer("seen", torch.zeros(1))
    engine = checks.engine_on(mechanism(), gradients(2), [[0]], model=model)
    with pytest.raises(Exception, match="buffer seen"):
        engine.step(0, 0)


def _batch_norm() -> None:
    model = PlainGradients(WIDTHS)
    model.norm = torch.nn.BatchNorm1d(3)
    with pytest.raises(Exception, match="BatchNorm1d at norm"):
        checks.engine_on(mechanism(), gradients(2), model=model)


def _coins_are_secret() -> None:
    mech = mechanism("dp_sgd")
    draws = [
        sampling.sampler(np.arange(200), mech, seed=0, key=SecretKey(bytes([i]) * 32)).draw(0, 0)
        for i in (1, 2)
    ]
    assert draws[0].records.tolist() != draws[1].records.tolist()


def _poisson(microbatch_size: int = 1) -> None:
    checks.check_poisson(
        mechanism(sampling="poisson", noise_calibration="central", microbatch_size=microbatch_size)
    )


# --- what is broken ---------------------------------------------------------------------------


def _std_times(factor: float) -> Callable[[Patch], None]:
    right = Mechanism.worker_noise_std_at
    return lambda patch: patch.setattr(
        Mechanism, "worker_noise_std_at", lambda self, epoch: factor * right(self, epoch)
    )


def _noise_over_n(patch: Patch) -> None:
    patch.setattr(
        Mechanism,
        "worker_noise_std_at",
        lambda self, epoch: self.noise_multiplier_at(epoch) * self.max_grad_norm / self.num_workers,
    )


def _no_clip(patch: Patch) -> None:
    patch.setattr(clipping, "clip_factor", lambda norms, *_: torch.ones_like(norms))
    right = bookkeeping.clipped_sum
    patch.setattr(
        bookkeeping, "clipped_sum", lambda *a, **k: right(*a, **{**k, "max_grad_norm": 1e30})
    )


def _clip_each_group(patch: Patch) -> None:
    def clip_(self: Any, gradient: Any) -> torch.Tensor:
        for view in gradient.views.values():
            view.mul_(min(1.0, self.max_grad_norm / float(view.norm())))
        return gradient.norm()

    patch.setattr(clipping.GradientHook, "clip_", clip_)


def _clip_the_sum(patch: Patch) -> None:
    """Accumulate over passes, clip once at the end of the step: what accumulation must not do."""

    def passes(draw: Any, *, limit: int | None, units_apart: bool) -> Any:
        for i in range(len(draw.records)):
            yield Pass(i, i + 1, 0, 1, whole=False, ends=i + 1 == len(draw.records))

    patch.setattr(_private, "passes", passes)


def _clip_each_piece(patch: Patch) -> None:
    """Clip every physical batch of a micro-batch by itself."""
    right = _passes.passes
    patch.setattr(
        _private, "passes", lambda *a, **k: (replace(p, ends=True) for p in right(*a, **k))
    )


def _unit_of_sums(patch: Patch) -> None:
    patch.setattr(
        sampling.Draw, "weights", property(lambda self: np.ones(len(self.records), np.float32))
    )


def _divide_by_drawn(patch: Patch) -> None:
    patch.setattr(
        _private.PrivateEngine, "_divisor", lambda self, draw: float(max(1, draw.num_drawn))
    )


def _reuse_noise(patch: Patch) -> None:
    right = SecretKey.stream
    patch.setattr(SecretKey, "stream", lambda self, *names: right(self, *names[:-1]))


def _same_noise_on_all_workers(patch: Patch) -> None:
    right = SecretKey.stream
    patch.setattr(SecretKey, "stream", lambda self, *names: right(self, *names[:3], names[-1]))


def _reuse_within_vector(patch: Patch) -> None:
    def twice(target: torch.Tensor, **how: Any) -> None:
        half = target[: len(target) // 2]
        noise = torch.zeros_like(half)
        add_noise_(noise, **{**how, "segments": [(slice(0, len(half)), how["segments"][0][1])]})
        target.mul_(how["factor"])
        half.add_(noise)
        target[len(target) // 2 :].add_(noise)

    patch.setattr(_private, "add_noise_", twice)


def _alpha_noise_power(power: float) -> Callable[[Patch], None]:
    right = _private.PrivateEngine._segments
    return lambda patch: patch.setattr(
        _private.PrivateEngine,
        "_segments",
        lambda self, std: [
            (where, std * (found / std) ** power) for where, found in right(self, std)
        ],
    )


def _alpha_twice_in_the_norm(patch: Patch) -> None:
    right = clipping.GradientHook.__init__
    patch.setattr(
        clipping.GradientHook,
        "__init__",
        lambda self, *, group_scale, **how: right(self, group_scale=group_scale**2, **how),
    )


def _raw_alpha(patch: Patch) -> None:
    """`first_step_noised` that looks at the gradient before the noise."""
    right = _private.PrivateEngine._add_noise

    def peek(self: Any, epoch: int, index: int, factor: float) -> None:
        if not self._scale_is_known:
            self._set_scale(scaling.from_norms(self._flat.group_norms()))
        right(self, epoch, index, factor)

    patch.setattr(_private.PrivateEngine, "_add_noise", peek)


def _keep_nonfinite(patch: Patch) -> None:
    patch.setattr(clipping, "clip_factor", lambda n, c: (c / n).clamp(max=1.0))


def _noise_only_what_has_gradient(patch: Patch) -> None:
    right = add_noise_

    def some(target: torch.Tensor, **how: Any) -> None:
        idle = target == 0
        right(target, **how)
        target[idle] = 0

    patch.setattr(_private, "add_noise_", some)


def _fixed_size(patch: Patch) -> None:
    """Draw exactly B records: not what the accountant analyses."""

    def draw(self: Any, epoch: int, step: int) -> Any:
        rng = self._key.coins(epoch, step)
        members = rng.choice(len(self.population), self.mechanism.expected_batch_size, False)
        return self._part(members, rng.integers(self.mechanism.num_microbatches, size=len(members)))

    patch.setattr(sampling.Poisson, "draw", draw)


def _twice_the_rate(patch: Patch) -> None:
    right = sampling.Poisson.draw

    def draw(self: Any, epoch: int, step: int) -> Any:
        mech = self.mechanism
        self.mechanism = replace(mech, num_records=mech.num_records // 2)
        try:
            return right(self, epoch, step)
        finally:
            self.mechanism = mech

    patch.setattr(sampling.Poisson, "draw", draw)


def _next_free_slot(patch: Patch) -> None:
    right = sampling.Poisson._part
    patch.setattr(
        sampling.Poisson,
        "_part",
        lambda self, members, bins: right(
            self, members, np.arange(len(members)) % self.mechanism.num_microbatches
        ),
    )


def _shuffle_for_poisson(patch: Patch) -> None:
    patch.setattr(
        sampling,
        "Poisson",
        lambda population, mech, *, key, trial_id, attempt, **how: sampling.Shuffle(
            population, replace(mech, epochs=1000, num_records=mech.num_records), seed=0, **how
        ),
    )


def _public_coins(patch: Patch) -> None:
    patch.setattr(
        SecretKey, "coins", lambda self, *names: np.random.default_rng(abs(hash(names)) % 2**32)
    )


def _padded(patch: Patch) -> None:
    """A distributed sampler that repeats records until every process has as many."""
    right = sampling.Shuffle._part

    def part(self: Any, members: np.ndarray, bins: np.ndarray) -> Any:
        missing = -len(members) % self.mechanism.expected_batch_size
        members = np.concatenate([members, members[:missing]])
        bins = np.arange(len(members)) * self.mechanism.num_microbatches // len(members)
        return right(self, members, bins)

    patch.setattr(sampling.Shuffle, "_part", part)


def _nothing(owner: Any, name: str) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(owner, name, lambda *a, **k: None)


def _forget_steps(patch: Patch) -> None:
    right = _engine.Engine.step

    def step(self: Any, epoch: int, step: int) -> Any:
        self._next_step = 0
        return right(self, epoch, step)

    patch.setattr(_engine.Engine, "step", step)


SCALE = "test_engine_noise::test_central_noise_is_c_z_on_the_sum"
PAPER = "test_engine_noise::test_paper_noise_is_c_z_over_root_n_on_the_sum"
ALPHA = "test_engine_noise::test_central_noise_follows_alpha_and_paper_noise_does_not"
INDEPENDENT = "test_engine_noise::test_noise_is_independent_across_steps_coordinates_and_processes"
SENSITIVITY = (
    "test_engine_sensitivity::test_one_record_moves_the_sum_by_the_stated_sensitivity_at_most"
)
SUM = "test_engine_steps::test_a_step_releases_the_sum_of_clipped_units_over_a_fixed_number"
CLAIM = "test_engine_steps::test_the_step_keeps_its_claim"
COINS = "test_sampling::test_poisson_inclusions_are_independent_coins"
ONCE = "test_sampling::test_shuffle_puts_each_record_in_one_step_of_an_epoch"
CENTRAL = {"noise_calibration": "central"}
FIVE = [[0], [1], [2], [3], [4]]
PAIRS = [[0, 1], [2, 3], [4, 5]]


def plain() -> PlainGradients:
    return PlainGradients(WIDTHS)


def independent() -> None:
    checks.check_noise_is_independent(mechanism(**CENTRAL))


MUTANTS = [
    Mutant("no clip", _no_clip, _sensitivity(True), SENSITIVITY),
    Mutant("no clip, slow path", _no_clip, _sensitivity(False), SENSITIVITY),
    Mutant("no clip, seen from outside", _no_clip, _audit("dp_sgd"), CLAIM),
    Mutant("each group clipped to C by itself", _clip_each_group, _sum(FIVE, model=plain), SUM),
    Mutant("accumulate over records, clip the sum", _clip_the_sum, _sum(FIVE), SUM),
    Mutant(
        "clip each physical batch of a micro-batch", _clip_each_piece,
        _sum(PAIRS, "edp_sgd", **CENTRAL, microbatch_size=2, physical_batch_size=1), SUM,
    ),
    Mutant(
        "clip the sum of a micro-batch, not its mean", _unit_of_sums,
        _sum(PAIRS, "edp_sgd", scale=0.5, **CENTRAL, microbatch_size=2), SUM,
    ),
    Mutant("noise / N, not noise / sqrt(N)", _noise_over_n, _noise_scale(1, **CENTRAL), SCALE),
    Mutant("the same, seen from outside", _noise_over_n, _audit(**CENTRAL), CLAIM),
    Mutant("2/3 of the noise", _std_times(2 / 3), _noise_scale(0.5), PAPER),
    Mutant("3/2 of the noise", _std_times(3 / 2), _noise_scale(0.5), PAPER),
    Mutant("2/3 of the noise, seen from outside", _std_times(2 / 3), _audit("dp_sgd"), CLAIM),
    Mutant("no noise", _std_times(0), _audit(), CLAIM),
    Mutant("noise for sensitivity C where it is 2C", _std_times(1 / 2), _audit(), CLAIM),
    Mutant("a step's noise vector used again", _reuse_noise, independent, INDEPENDENT),
    Mutant("the same noise on every process", _same_noise_on_all_workers, independent, INDEPENDENT),
    Mutant("half a noise vector used twice", _reuse_within_vector, independent, INDEPENDENT),
    Mutant("central noise without alpha", _alpha_noise_power(0), _alpha_noise, ALPHA),
    Mutant("alpha twice on the noise", _alpha_noise_power(2), _alpha_noise, ALPHA),
    Mutant(
        "alpha twice on the noise, seen from outside", _alpha_noise_power(2),
        _audit(**CENTRAL, group_scale="public"), CLAIM,
    ),
    Mutant(
        "alpha twice in the norm", _alpha_twice_in_the_norm,
        _sum(PAIRS[:1], "edp_sgd", group_scale="public"), SUM,
    ),
    Mutant(
        "alpha from the raw first gradient where noised is claimed", _raw_alpha, _noisy_alpha,
        "test_engine_steps::test_alpha_comes_from_the_first_step",
    ),
    Mutant(
        "the raw first gradient's alpha not marked",
        lambda patch: patch.setattr(Mechanism, "unaccounted", ()), _raw_alpha_is_marked,
        "accountants: unaccounted reasons",
    ),
    Mutant("divide by the drawn size", _divide_by_drawn, _sum(FIVE), SUM),
    Mutant(
        "a gradient that is not finite is let through", _keep_nonfinite, _nonfinite,
        "test_engine_steps::test_a_gradient_that_is_not_finite_is_zeroed_noised_and_counted",
    ),
    Mutant(
        "only parameters with gradient are noised", _noise_only_what_has_gradient,
        _idle_parameter_is_noised,
        "test_engine_steps::test_a_parameter_without_gradient_is_noised_too",
    ),
    Mutant("a fixed number drawn, Poisson accounted", _fixed_size, _poisson, COINS),
    Mutant("twice the accounted rate", _twice_the_rate, _poisson, COINS),
    Mutant("shuffled, Poisson accounted", _shuffle_for_poisson, _poisson, COINS),
    Mutant(
        "the next free micro-batch in place of a coin", _next_free_slot, lambda: _poisson(2), COINS
    ),
    Mutant(
        "coins from public names", _public_coins, _coins_are_secret,
        "test_sampling::test_poisson_coins_come_from_the_key_and_not_from_the_seed",
    ),
    Mutant(
        "a padded sampler repeats records", _padded,
        lambda: checks.check_shuffle(mechanism(records=47, batch=8)), ONCE,
    ),
    Mutant(
        "a step without one worker's noise goes on",
        _nothing(_engine.Engine, "_refuse_missing_share"), _missing_share,
        "test_engine_steps::test_a_missing_worker_aborts_the_step_before_adam_sees_it",
    ),
    Mutant(
        "a step is taken twice with one key", _forget_steps, _replay,
        "test_engine_steps::test_no_step_is_taken_twice_with_one_key",
    ),
    Mutant(
        "buffers with private statistics pass",
        _nothing(_private.PrivateEngine, "_refuse_changed_buffers"), _buffers,
        "test_engine_steps::test_a_buffer_that_training_writes_stops_the_trial",
    ),
    Mutant(
        "batch norm passes", _nothing(_private, "refuse_mixing"), _batch_norm,
        "test_engine_steps::test_a_layer_through_which_records_meet_is_refused_by_name",
    ),
]  # fmt: skip
MUTANTS += [Mutant(*row) for row in ROWS]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_the_mutant_is_noticed(mutant: Mutant, monkeypatch: Patch) -> None:
    """The check passes on the real code and fails on the mutant."""
    mutant.check()
    mutant.breaks(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        mutant.check()
