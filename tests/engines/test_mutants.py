"""Mutants: each breaks the privatised step in one place, and a check must notice."""

from dataclasses import replace
from functools import partial

import engine_checks as checks
import numpy as np
import pytest
import test_engine_noise as noises
import test_sampling as draws
import torch
from engine_checks import change, gradients, mechanism

from trainables.dp import gradient_hook, sampling
from trainables.dp.engines import _physical_batches, _private
from trainables.dp.engines._physical_batches import PhysicalBatch
from trainables.dp.engines.step_audit import audit_step
from trainables.dp.layers import bookkeeping
from trainables.dp.mechanism import Mechanism
from trainables.dp.noise import SecretKey
from trainables.errors import TrialFailed

C = 1.5


def _audit(engine="edp_sgd", **privacy):
    def check():
        audit = audit_step(mechanism(engine, max_grad_norm=C, **privacy), calls=240)
        assert audit.passed, audit

    return check


def _sum(
    units,
    engine="dp_sgd",
    *,
    scale=3.0,
    way="books",
    physical_batch_size=None,
    **privacy,
):
    mech = mechanism(engine, max_grad_norm=C, **privacy)
    how = {"way": way, "physical_batch_size": physical_batch_size}
    return lambda: checks.check_sum(mech, gradients(8, scale=scale), units, **how)


def _sensitivity(way):
    """A record of length 1e3 C is added by itself, or turns a micro-batch around."""

    def check():
        table = gradients(4, scale=1e3)
        table[1] = -3 * table[0]
        for mech, left, right in (
            (mechanism("dp_sgd"), [[2]], [[2], [0]]),
            (mechanism(sampling="poisson"), [[0], [2]], [[0, 1], [2]]),
        ):
            assert change(mech, table, left, right, way=way) <= mech.sensitivity * (
                1 + 1e-4
            )

    return check


def _poisson(microbatch_size=1):
    checks.check_poisson(
        mechanism(
            sampling="poisson",
            noise_calibration="central",
            microbatch_size=microbatch_size,
        )
    )


def _std_times(factor):
    right = Mechanism.worker_noise_std_at
    return lambda patch: patch.setattr(
        Mechanism,
        "worker_noise_std_at",
        lambda self, epoch: factor * right(self, epoch),
    )


def _no_clip(patch):
    patch.setattr(
        gradient_hook, "clip_factor", lambda norms, *_: torch.ones_like(norms)
    )
    right = bookkeeping.clipped_sum
    patch.setattr(
        bookkeeping,
        "clipped_sum",
        lambda *a, **k: right(*a, **{**k, "max_grad_norm": 1e30}),
    )


def _clip_each_group(patch):
    def clip_(self, gradient):
        for view in gradient.views.values():
            view.mul_(min(1.0, self.max_grad_norm / float(view.norm())))
        return gradient.group_norms().norm()

    patch.setattr(gradient_hook.GradientHook, "clip_", clip_)


def _clip_the_sum(patch):
    """Accumulate over passes, clip once at the end of the step: what accumulation must
    not do.
    """

    def passes(draw, *, limit, units_apart):
        for i in range(len(draw.records)):
            yield PhysicalBatch(
                i, i + 1, 0, 1, whole=False, ends=i + 1 == len(draw.records)
            )

    patch.setattr(_private, "passes", passes)


def _clip_each_piece(patch):
    """Clip every physical batch of a micro-batch by itself."""
    right = _physical_batches.passes
    patch.setattr(
        _private,
        "passes",
        lambda *a, **k: (replace(p, ends=True) for p in right(*a, **k)),
    )


def _unit_of_sums(patch):
    patch.setattr(
        sampling.SampledBatch,
        "weights",
        property(lambda self: np.ones(len(self.records), np.float32)),
    )


def _divide_by_drawn(patch):
    patch.setattr(
        _private.PrivateEngine,
        "_divisor",
        lambda self, draw: float(max(1, draw.num_drawn)),
    )


def _reuse_noise(patch):
    right = SecretKey.stream
    patch.setattr(SecretKey, "stream", lambda self, *names: right(self, *names[:-1]))


def _same_noise_on_all_workers(patch):
    right = SecretKey.stream
    patch.setattr(
        SecretKey, "stream", lambda self, *names: right(self, *names[:3], names[-1])
    )


def _fixed_size(patch):
    """Draw exactly B records: not what the accountant analyses."""

    def draw(self, epoch, step):
        rng = self.key.coins(epoch, step)
        members = rng.choice(
            len(self.population), self.mechanism.expected_batch_size, False
        )
        return self._part(
            members, rng.integers(self.mechanism.num_microbatches, size=len(members))
        )

    patch.setattr(sampling.Poisson, "draw", draw)


def _next_free_slot(patch):
    right = sampling.Poisson._part
    patch.setattr(
        sampling.Poisson,
        "_part",
        lambda self, members, bins: right(
            self, members, np.arange(len(members)) % self.mechanism.num_microbatches
        ),
    )


def _shuffle_for_poisson(patch):
    patch.setattr(
        sampling,
        "Poisson",
        lambda mechanism, **how: sampling.Shuffle(
            mechanism=replace(mechanism, epochs=1000), **how
        ),
    )


def _public_coins(patch):
    patch.setattr(
        SecretKey,
        "coins",
        lambda self, *names: np.random.default_rng(abs(hash(names)) % 2**32),
    )


def _padded(patch):
    """A distributed sampler that repeats records until every process has as many."""
    right = sampling.Shuffle._part

    def part(self, members, bins):
        missing = -len(members) % self.mechanism.expected_batch_size
        members = np.concatenate([members, members[:missing]])
        bins = np.arange(len(members)) * self.mechanism.num_microbatches // len(members)
        return right(self, members, bins)

    patch.setattr(sampling.Shuffle, "_part", part)


CENTRAL = {"noise_calibration": "central"}
FIVE = [[0], [1], [2], [3], [4]]
PAIRS = [[0, 1], [2, 3], [4, 5]]
independent = partial(
    noises.test_noise_is_independent_across_steps_coordinates_and_processes, "central"
)

# What is broken, how, and a check that must notice, which holds of the unbroken code.
MUTANTS = {
    "no clip": (_no_clip, _sensitivity("books")),
    "no clip, slow path": (_no_clip, _sensitivity("autograd")),
    "no clip, seen from outside": (_no_clip, _audit("dp_sgd")),
    "each group clipped to C by itself": (_clip_each_group, _sum(FIVE, way="autograd")),
    "accumulate over records, clip the sum": (_clip_the_sum, _sum(FIVE)),
    "clip each physical batch of a micro-batch": (
        _clip_each_piece,
        _sum(PAIRS, "edp_sgd", **CENTRAL, microbatch_size=2, physical_batch_size=1),
    ),
    "clip the sum of a micro-batch, not its mean": (
        _unit_of_sums,
        _sum(PAIRS, "edp_sgd", scale=0.5, **CENTRAL, microbatch_size=2),
    ),
    "2/3 of the noise, seen from outside": (_std_times(2 / 3), _audit("dp_sgd")),
    "no noise": (_std_times(0), _audit()),
    "noise for sensitivity C where it is 2C": (_std_times(1 / 2), _audit()),
    "a step's noise vector used again": (_reuse_noise, independent),
    "the same noise on every process": (_same_noise_on_all_workers, independent),
    "divide by the drawn size": (_divide_by_drawn, _sum(FIVE)),
    "a fixed number drawn, Poisson accounted": (_fixed_size, _poisson),
    "shuffled, Poisson accounted": (_shuffle_for_poisson, _poisson),
    "the next free micro-batch in place of a coin": (
        _next_free_slot,
        lambda: _poisson(2),
    ),
    "coins from public names": (
        _public_coins,
        partial(draws.test_coins_come_from_the_key_and_not_from_the_seed, "poisson"),
    ),
    "a padded sampler repeats records": (
        _padded,
        lambda: checks.check_shuffle(mechanism(records=47, batch=8)),
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_mutant_is_noticed(mutant, monkeypatch):
    """The check passes on the real code and fails on the mutant, or the step itself
    finds it.
    """
    breaks, check = MUTANTS[mutant]
    check()
    breaks(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, TrialFailed)):
        check()
