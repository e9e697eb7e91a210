"""Mutants: each breaks the privatised step in one place, and a check must notice.

A mutant that no check notices fails here.
"""

import math
from dataclasses import replace
from functools import partial

import engine_checks as checks
import numpy as np
import pytest
import test_engine_noise as noises
import test_engine_steps as steps
import test_sampling as draws
import torch
from engine_checks import WIDTHS, PlainGradients, change, gradients, mechanism

from tests.models import test_adapted_lstm
from tests.whole_trial.naive import in_double, sum_of_clipped
from tests.whole_trial.small import model_and_loader
from tests.whole_trial.test_released_sum import units_of
from trainables import catalogue
from trainables.engines import Setup, _engine, _passes, _private, audit_step
from trainables.engines._passes import Pass
from trainables.errors import TrialFailed
from trainables.guarantee import sampling, scaling
from trainables.guarantee.mechanism import Mechanism
from trainables.guarantee.noise import SecretKey, add_noise_, public_key
from trainables.guarantee.releases import release
from trainables.layers import bookkeeping
from trainables.layers.layer_norm import LayerNormEntry
from trainables.layers.linear import LinearEntry
from trainables.layers.lstm import LstmEntry
from trainables.models._lora import AdaptedBiLstm
from trainables.privacy import clipping
from trainables.system.communication import Alone

C = 1.5


def _audit(engine="edp_sgd", **privacy):
    def check():
        audit = audit_step(mechanism(engine, max_grad_norm=C, **privacy), calls=240)
        assert audit.passed, audit

    return check


def _noise_scale(std, engine="edp_sgd", **privacy):
    return lambda: checks.check_noise_scale(mechanism(engine, **privacy), [std] * 3)


def _sum(units, engine="dp_sgd", **how):
    setup = {k: how.pop(k) for k in ("physical_batch_size", "model") if k in how}
    scale = how.pop("scale", 3.0)
    mech = mechanism(engine, max_grad_norm=C, **how)

    def check():
        model = setup.get("model")
        built = {**setup, "model": model() if model else None}
        checks.check_sum(mech, gradients(8, scale=scale), units, **built)

    return check


def _sensitivity(books):
    """A record of length 1e3 C is added by itself, or turns a micro-batch around."""

    def check():
        table = gradients(4, scale=1e3)
        table[1] = -3 * table[0]
        model = None if books else (lambda: PlainGradients(WIDTHS))
        mech = mechanism("dp_sgd")
        assert change(mech, table, [[2]], [[2], [0]], model=model) <= mech.sensitivity * (1 + 1e-4)
        mech = mechanism(sampling="poisson")
        moved = change(mech, table, [[0], [2]], [[0, 1], [2]], model=model)
        assert moved <= mech.sensitivity * (1 + 1e-4)

    return check


def _noisy_alpha():
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


def _raw_alpha_is_marked():
    assert mechanism(group_scale="first_step").unaccounted
    assert not mechanism(group_scale="first_step_noised").unaccounted


def _poisson(microbatch_size=1):
    checks.check_poisson(
        mechanism(sampling="poisson", noise_calibration="central", microbatch_size=microbatch_size)
    )


def _released(kind):
    """A step of a small model against the definition, which reads no book.

    Its heads are fixed, and adapters have left their start, so that the encoder's part is seen.
    """

    def check():
        bound = 0.02
        mech = mechanism("dp_sgd", records=12, batch=6, workers=1, max_grad_norm=bound)
        model, loader = model_and_loader(kind, dropout=0.0)
        torch.manual_seed(0)
        for name, own in model.named_parameters():
            if name.startswith(("intent_head", "tag_head", "crf")):
                own.requires_grad_(False)
            elif ".up." in name:
                torch.nn.init.normal_(own, std=0.1)
        made = catalogue.entry("engines", mech.engine).make(
            model,
            replace(mech, noise_multiplier=0.0),
            Setup(
                loader=loader, ids=np.arange(12), learning_rate=0.05, comm=Alone(),
                key=public_key(0, "mutants"),
            ),
        )  # fmt: skip
        model, units = in_double(model), units_of(made, 0, 0)
        made.step(0, 0)
        expected, _ = sum_of_clipped(
            model, loader, units, max_grad_norm=bound, group_scale=made.group_scale,
        )  # fmt: skip
        found = made.released.double() * mech.num_microbatches
        assert float((found - expected).norm()) <= 2e-4 * bound * len(units)

    return check


def _pieces_are_paid():
    made = replace(mechanism("dp_sgd"), num_steps=103, steps_per_epoch=20, epochs=6)
    counts = [release(made, first=n, last=n + 1).steps for n in range(6)]
    assert [sum(step.count for step in steps) for steps in counts] == [20] * 5 + [3]


# --- what is broken ---------------------------------------------------------------------------


def _std_times(factor):
    right = Mechanism.worker_noise_std_at
    return lambda patch: patch.setattr(
        Mechanism, "worker_noise_std_at", lambda self, epoch: factor * right(self, epoch)
    )


def _noise_over_n(patch):
    patch.setattr(
        Mechanism,
        "worker_noise_std_at",
        lambda self, epoch: self.noise_multiplier_at(epoch) * self.max_grad_norm / self.num_workers,
    )


def _no_clip(patch):
    patch.setattr(clipping, "clip_factor", lambda norms, *_: torch.ones_like(norms))
    right = bookkeeping.clipped_sum
    patch.setattr(
        bookkeeping, "clipped_sum", lambda *a, **k: right(*a, **{**k, "max_grad_norm": 1e30})
    )


def _clip_each_group(patch):
    def clip_(self, gradient):
        for view in gradient.views.values():
            view.mul_(min(1.0, self.max_grad_norm / float(view.norm())))
        return gradient.norm()

    patch.setattr(clipping.GradientHook, "clip_", clip_)


def _clip_the_sum(patch):
    """Accumulate over passes, clip once at the end of the step: what accumulation must not do."""

    def passes(draw, *, limit, units_apart):
        for i in range(len(draw.records)):
            yield Pass(i, i + 1, 0, 1, whole=False, ends=i + 1 == len(draw.records))

    patch.setattr(_private, "passes", passes)


def _clip_each_piece(patch):
    """Clip every physical batch of a micro-batch by itself."""
    right = _passes.passes
    patch.setattr(
        _private, "passes", lambda *a, **k: (replace(p, ends=True) for p in right(*a, **k))
    )


def _unit_of_sums(patch):
    patch.setattr(
        sampling.Draw, "weights", property(lambda self: np.ones(len(self.records), np.float32))
    )


def _divide_by_drawn(patch):
    patch.setattr(
        _private.PrivateEngine, "_divisor", lambda self, draw: float(max(1, draw.num_drawn))
    )


def _reuse_noise(patch):
    right = SecretKey.stream
    patch.setattr(SecretKey, "stream", lambda self, *names: right(self, *names[:-1]))


def _same_noise_on_all_workers(patch):
    right = SecretKey.stream
    patch.setattr(SecretKey, "stream", lambda self, *names: right(self, *names[:3], names[-1]))


def _reuse_within_vector(patch):
    def twice(target, **how):
        half = target[: len(target) // 2]
        noise = torch.zeros_like(half)
        add_noise_(noise, **{**how, "segments": [(slice(0, len(half)), how["segments"][0][1])]})
        target.mul_(how["factor"])
        half.add_(noise)
        target[len(target) // 2 :].add_(noise)

    patch.setattr(_private, "add_noise_", twice)


def _alpha_noise_power(power):
    right = _private.PrivateEngine._segments
    return lambda patch: patch.setattr(
        _private.PrivateEngine,
        "_segments",
        lambda self, std: [
            (where, std * (found / std) ** power) for where, found in right(self, std)
        ],
    )


def _alpha_twice_in_the_norm(patch):
    right = clipping.GradientHook.__init__
    patch.setattr(
        clipping.GradientHook,
        "__init__",
        lambda self, *, group_scale, **how: right(self, group_scale=group_scale**2, **how),
    )


def _raw_alpha(patch):
    """`first_step_noised` that looks at the gradient before the noise."""
    right = _private.PrivateEngine._add_noise

    def peek(self, epoch, index, factor):
        if not self._scale_is_known:
            self._set_scale(scaling.from_norms(self._flat.group_norms()))
        right(self, epoch, index, factor)

    patch.setattr(_private.PrivateEngine, "_add_noise", peek)


def _keep_nonfinite(patch):
    patch.setattr(clipping, "clip_factor", lambda n, c: (c / n).clamp(max=1.0))


def _noise_only_what_has_gradient(patch):
    right = add_noise_

    def some(target, **how):
        idle = target == 0
        right(target, **how)
        target[idle] = 0

    patch.setattr(_private, "add_noise_", some)


def _fixed_size(patch):
    """Draw exactly B records: not what the accountant analyses."""

    def draw(self, epoch, step):
        rng = self._key.coins(epoch, step)
        members = rng.choice(len(self.population), self.mechanism.expected_batch_size, False)
        return self._part(members, rng.integers(self.mechanism.num_microbatches, size=len(members)))

    patch.setattr(sampling.Poisson, "draw", draw)


def _twice_the_rate(patch):
    right = sampling.Poisson.draw

    def draw(self, epoch, step):
        mech = self.mechanism
        self.mechanism = replace(mech, num_records=mech.num_records // 2)
        try:
            return right(self, epoch, step)
        finally:
            self.mechanism = mech

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
        lambda population, mech, *, key, trial_id, attempt, **how: sampling.Shuffle(
            population, replace(mech, epochs=1000, num_records=mech.num_records), seed=0, **how
        ),
    )


def _public_coins(patch):
    patch.setattr(
        SecretKey, "coins", lambda self, *names: np.random.default_rng(abs(hash(names)) % 2**32)
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


def _nothing(owner, name):
    return lambda patch: patch.setattr(owner, name, lambda *a, **k: None)


def _forget_steps(patch):
    right = _engine.Engine.step

    def step(self, epoch, step):
        self._next_step = 0
        return right(self, epoch, step)

    patch.setattr(_engine.Engine, "step", step)


def _has_no_norm(which):
    """Linear maps whose weight is of such a shape."""
    right = LinearEntry.squared_norms
    return lambda patch: patch.setattr(
        LinearEntry,
        "squared_norms",
        lambda self, *how: right(self, *how) * (0.0 if which(self.weight.shape) else 1.0),
    )


def _adapters_read_the_state_of_their_own_time(patch):
    right = AdaptedBiLstm.entries

    def entries(self, x, h, dz, layout):
        now = h.clone()
        now.index_copy_(1, layout.previous, h[:, layout.num_records :])
        return right(self, x, now, dz, layout)

    patch.setattr(AdaptedBiLstm, "entries", entries)


def _bias_of_frozen_has_no_norm(entry):
    right = entry._factors

    def breaks(patch):
        def factors(self, *how):
            terms, g, ones = right(self, *how)
            return terms, g, ones if terms else 0.0

        patch.setattr(entry, "_factors", factors)

    return breaks


def _frozen_weights_have_a_norm(patch):
    right = LinearEntry._factors

    def factors(self, weights):
        terms, g, ones = right(self, weights)
        return terms or [(self.x, 1.0)], g, ones

    patch.setattr(LinearEntry, "_factors", factors)


def _scales_have_no_norm(patch):
    right = LayerNormEntry.squared_norms
    patch.setattr(
        LayerNormEntry,
        "squared_norms",
        lambda self, units, weights: right(self, units, {**weights, self.weight: 0.0}),
    )


def _rest_is_free(patch):
    right = Mechanism.steps_in
    patch.setattr(Mechanism, "steps_in", lambda self, epoch: right(self, epoch) // 20 * 20)


def _piece_is_one_step(patch):
    patch.setattr(Mechanism, "steps_in", lambda self, epoch: 1)


def plain():
    return PlainGradients(WIDTHS)


CENTRAL = {"noise_calibration": "central"}
FIVE = [[0], [1], [2], [3], [4]]
PAIRS = [[0, 1], [2, 3], [4, 5]]
independent = partial(
    noises.test_noise_is_independent_across_steps_coordinates_and_processes, "central"
)
alpha_noise = noises.test_central_noise_follows_alpha_and_paper_noise_does_not

# What is broken, how, and a check that must notice, which holds of the unbroken code.
MUTANTS = {
    "no clip": (_no_clip, _sensitivity(True)),
    "no clip, slow path": (_no_clip, _sensitivity(False)),
    "no clip, seen from outside": (_no_clip, _audit("dp_sgd")),
    "each group clipped to C by itself": (_clip_each_group, _sum(FIVE, model=plain)),
    "accumulate over records, clip the sum": (_clip_the_sum, _sum(FIVE)),
    "clip each physical batch of a micro-batch": (
        _clip_each_piece,
        _sum(PAIRS, "edp_sgd", **CENTRAL, microbatch_size=2, physical_batch_size=1),
    ),
    "clip the sum of a micro-batch, not its mean": (
        _unit_of_sums,
        _sum(PAIRS, "edp_sgd", scale=0.5, **CENTRAL, microbatch_size=2),
    ),
    "noise / N, not noise / sqrt(N)": (_noise_over_n, _noise_scale(1, **CENTRAL)),
    "the same, seen from outside": (_noise_over_n, _audit(**CENTRAL)),
    "2/3 of the noise": (_std_times(2 / 3), _noise_scale(0.5)),
    "3/2 of the noise": (_std_times(3 / 2), _noise_scale(0.5)),
    "2/3 of the noise, seen from outside": (_std_times(2 / 3), _audit("dp_sgd")),
    "no noise": (_std_times(0), _audit()),
    "noise for sensitivity C where it is 2C": (_std_times(1 / 2), _audit()),
    "a step's noise vector used again": (_reuse_noise, independent),
    "the same noise on every process": (_same_noise_on_all_workers, independent),
    "half a noise vector used twice": (_reuse_within_vector, independent),
    "central noise without alpha": (_alpha_noise_power(0), alpha_noise),
    "alpha twice on the noise": (_alpha_noise_power(2), alpha_noise),
    "alpha twice on the noise, seen from outside": (
        _alpha_noise_power(2),
        _audit(**CENTRAL, group_scale="public"),
    ),
    "alpha twice in the norm": (
        _alpha_twice_in_the_norm,
        _sum(PAIRS[:1], "edp_sgd", group_scale="public"),
    ),
    "alpha from the raw first gradient where noised is claimed": (_raw_alpha, _noisy_alpha),
    "the raw first gradient's alpha not marked": (
        lambda patch: patch.setattr(Mechanism, "unaccounted", ()),
        _raw_alpha_is_marked,
    ),
    "divide by the drawn size": (_divide_by_drawn, _sum(FIVE)),
    "a gradient that is not finite is let through": (
        _keep_nonfinite,
        partial(
            steps.test_a_gradient_that_is_not_finite_is_zeroed_noised_and_counted,
            *(math.nan, "autograd", FIVE[:3]),
        ),
    ),
    "only parameters with gradient are noised": (
        _noise_only_what_has_gradient,
        steps.test_a_parameter_without_gradient_is_noised_too,
    ),
    "a fixed number drawn, Poisson accounted": (_fixed_size, _poisson),
    "twice the accounted rate": (_twice_the_rate, _poisson),
    "shuffled, Poisson accounted": (_shuffle_for_poisson, _poisson),
    "the next free micro-batch in place of a coin": (_next_free_slot, lambda: _poisson(2)),
    "coins from public names": (
        _public_coins,
        partial(draws.test_coins_come_from_the_key_and_not_from_the_seed, "poisson"),
    ),
    "a padded sampler repeats records": (
        _padded,
        lambda: checks.check_shuffle(mechanism(records=47, batch=8)),
    ),
    "a step without one worker's noise goes on": (
        _nothing(_engine.Engine, "_refuse_missing_share"),
        steps.test_a_missing_worker_aborts_the_step_before_adam_sees_it,
    ),
    "a step is taken twice with one key": (
        _forget_steps,
        steps.test_no_step_is_taken_twice_with_one_key,
    ),
    "buffers with private statistics pass": (
        _nothing(_private.PrivateEngine, "_refuse_changed_buffers"),
        partial(steps.test_a_buffer_that_training_changes_stops_the_trial, False, "last"),
    ),
    "batch norm passes": (
        _nothing(_private, "refuse_mixing"),
        partial(
            steps.test_a_layer_through_which_records_meet_is_refused_by_name,
            torch.nn.BatchNorm1d(4),
        ),
    ),
    "the second matrix of an adapter left out of the norm": (
        _has_no_norm(lambda shape: shape[1] == 2),
        _released("bert, adapters of the top layer"),
    ),
    # The small CLC has 16 units, which are the width of its recurrent maps alone.
    "the first matrix of a recurrent adapter left out of the norm": (
        _has_no_norm(lambda shape: shape == (2, 16)),
        _released("clc, adapters"),
    ),
    "adapters of a recurrent map read the state of their own time, not the one before": (
        _adapters_read_the_state_of_their_own_time,
        partial(test_adapted_lstm.test_the_same_of_one_layer, 1e9),
    ),
    "biases of frozen weights left out of the norm": (
        _bias_of_frozen_has_no_norm(LinearEntry),
        _released("bert, biases"),
    ),
    "the same, of an LSTM": (
        _bias_of_frozen_has_no_norm(LstmEntry),
        _released("clc, biases of the top layer"),
    ),
    "frozen weights counted in the norm": (_frozen_weights_have_a_norm, _released("bert, biases")),
    "scales of a trained norm left out of the clip": (
        _scales_have_no_norm,
        _released("bert, biases"),
    ),
    "the steps of the last piece are free": (_rest_is_free, _pieces_are_paid),
    "a piece of steps is paid for as one": (_piece_is_one_step, _pieces_are_paid),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_mutant_is_noticed(mutant, monkeypatch):
    """The check passes on the real code and fails on the mutant, or the step itself finds it."""
    breaks, check = MUTANTS[mutant]
    check()
    breaks(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, TrialFailed)):
        check()
