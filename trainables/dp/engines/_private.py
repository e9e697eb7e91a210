"""The step of both private engines: clip each unit, sum, add noise. They differ in the
mechanism.

With one record a unit this is DP-SGD (Abadi et al. 2016), with a worker's batch it is
eDP-SGD (Dupuy et al. 2021, Algorithm 1); other micro-batch sizes are between them.
"""

import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables.dp import scaling
from trainables.dp.clipping import clip_factor, refuse_mixing
from trainables.dp.engines._check import (
    MOST_AT_FIRST,
    TOLERANCE,
    Schedule,
    difference,
    taken,
)
from trainables.dp.engines._physical_batches import PhysicalBatch, passes
from trainables.dp.engines.engine import Engine, Setup, StepStats, sum_of_losses
from trainables.dp.flat import FlatGradient
from trainables.dp.gradient_hook import GradientHook
from trainables.dp.mechanism import Mechanism
from trainables.dp.noise import add_noise_
from trainables.dp.population import Ids
from trainables.dp.sampling import SampledBatch
from trainables.errors import InvalidInput, TrialFailed
from trainables.figures import CLIP_DIFFERENCE


class PrivateEngine(Engine):
    """Releases (sum of clipped units + Gaussian noise) / M in each step, by its
    mechanism.

    `group_scale` float64[K] is the alpha_k of the next step.
    """

    def __init__(self, model: nn.Module, mechanism: Mechanism, setup: Setup) -> None:
        refuse_mixing(model)
        super().__init__(model, mechanism, setup)
        self._key = setup.key
        self._stream = ("noise", setup.trial_id, setup.attempt)
        self._secure = setup.secure_noise
        names = ("clipping check", setup.trial_id, setup.attempt, setup.comm.rank)
        # The step is compared in float32, which takes twice the memory of bfloat16.
        first = min(self._physical or mechanism.num_records, MOST_AT_FIRST)
        whole = first if setup.precision == "fp32" else 0
        self._schedule = Schedule(
            lambda epoch: setup.key.coins(*names, epoch),
            mechanism.steps_in,
            size=self.layout.size,
            whole=whole,
        )
        self._compares = setup.compares and mechanism.is_private
        self._largest_difference = 0.0
        keep_draws_secret = getattr(model, "keep_draws_secret", None)
        if keep_draws_secret is not None and mechanism.is_private:
            keep_draws_secret()
        self._watched: Callable[..., AbstractContextManager[None]]
        self._watched = getattr(model, "watched", lambda **_: nullcontext())
        self._remember_fixed()
        # 1 for all before the first step of a data-dependent source.
        self.group_scale: Tensor
        self._set_scale(torch.ones(len(self.layout.names), dtype=torch.float64))
        self._scale_is_known = mechanism.group_scale == "none"
        if mechanism.group_scale == "public":
            self._take_public_scale(setup.public_batch)

    def _divisor(self, draw: SampledBatch) -> float:
        """M, fixed, because dividing by the drawn number would release it."""
        return float(self.mechanism.num_microbatches)

    def _fill(self, draw: SampledBatch, *, epoch: int, index: int) -> StepStats:
        # All of it before validation, in whose mode code may clear what it has kept.
        is_last = index + 1 == self.mechanism.steps_until(epoch + 1)
        with self._watched(deep=is_last):
            if self.mechanism.group_scale == "first_step" and not self._scale_is_known:
                self._take_raw_scale(draw)
            step = index - self.mechanism.steps_until(epoch)
            alone = self._check_clipping(draw, epoch, step) if self._compares else {}
            losses, norms = self._add_clipped(draw)
            self._refuse_moved(norms, alone, epoch, step)
        self._refuse_changed()
        self._add_noise(epoch, index)
        bound = self.mechanism.max_grad_norm
        return StepStats.of(losses, norms, records=len(draw.records), bound=bound)

    def step(self, epoch: int, step: int) -> StepStats:
        """As `Engine.step`; the first one also settles `first_step_noised`."""
        stats = super().step(epoch, step)
        if not self._scale_is_known:
            # Computed from the step's release; post-processing costs no epsilon.
            self._set_scale(self._scale_of_mean(1.0))
        return stats

    def state_dict(self) -> dict[str, Tensor]:
        """Also alpha_k, and whether it is fixed."""
        return super().state_dict() | {
            "group_scale": self.group_scale.clone(),
            "group_scale_is_known": torch.tensor(self._scale_is_known),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a `state_dict`."""
        super().load_state_dict(state)
        self._set_scale(state["group_scale"])
        self._scale_is_known = bool(state["group_scale_is_known"])
        self._remember_fixed()

    def run_epoch(self, epoch: int) -> dict[str, float]:
        """As `Engine.run_epoch`, with the largest difference of the clipped sums that
        any process compared (see `_check`), in units of C.
        """
        self._largest_difference = 0.0
        figures = super().run_epoch(epoch)
        if not self._compares:
            return figures
        return figures | {
            CLIP_DIFFERENCE: max(self.comm.gather(self._largest_difference))
        }

    def _check_clipping(
        self, draw: SampledBatch, epoch: int, step: int
    ) -> dict[int, Tensor]:
        """Compare the clipped sum of a part of the step's records where that is due.
        The flat buffer is empty before and after. Returns the norms of some units as
        they are without the others, by the units' places among those of `draw` that
        have records.

        Raises: TrialFailed where the sum is not what its definition says, or the trial
            has diverged; nothing is released.
        """
        due = self._schedule.part_of(draw, epoch, step, also=self._longest(draw))
        if due is None:
            return {}
        self._refuse_diverged(epoch, step)
        part, alone = due
        norms_alone: dict[int, Tensor] = {}

        def by_itself(unit: int) -> Tensor:
            kept, self._flat = self._flat, FlatGradient(self.layout)
            try:
                _, found = self._add_clipped(
                    taken(part, np.flatnonzero(part.unit == unit))
                )
                norms_alone[unit] = found[0]
                return self._flat.data
            finally:
                self._flat = kept

        # What bfloat16 rounds comes before norm and sum, which are float32 in any case.
        precision, last, self._source.precision = (
            self._source.precision,
            self._last,
            "fp32",
        )
        try:
            if not self._source.per_unit:  # draws of such code cannot be repeated
                self.model.eval()
            _, norms = self._add_clipped(part)
            found = difference(
                self.model,
                self._batch,
                part,
                alone,
                clipped=self._flat.data,
                norms=norms,
                max_grad_norm=self.mechanism.max_grad_norm,
                group_scale=self.group_scale,
                by_itself=by_itself,
            )
        finally:
            self._source.precision, self._last = precision, last
            self.model.train()
            self._flat.zero_()
        self._largest_difference = max(self._largest_difference, found)
        # One record may have no finite gradient, and then adds nothing; a trial of such
        # has ended.
        if found > TOLERANCE or (len(norms) > 1 and not norms.isfinite().any()):
            self._refuse_diverged(epoch, step, norms)
        if found > TOLERANCE:
            raise TrialFailed(
                f"expected the clipped sum of step {step} in epoch {epoch + 1} within"
                f" {TOLERANCE:g} C of its recomputation in float64, got {found:.3g} C:"
                " nothing of the step is released"
            )
        if precision != "fp32" or not self._source.per_unit:
            return {}  # a pass alone is rounded, or drawn, otherwise
        return _whole_units(draw, part, norms_alone)

    def _longest(self, draw: SampledBatch) -> Ids:
        """The place in `draw` of its longest record, where the step itself is not
        compared with its units alone: it would move the bounds of the others first.
        """
        lengths = getattr(self._loader, "lengths", None)
        if self._source.precision == "fp32" or lengths is None or not len(draw.records):
            return np.zeros(0, dtype=np.int64)
        return np.array([np.argmax(lengths(draw.records))], dtype=np.int64)

    def _refuse_moved(
        self, norms: Tensor, alone: dict[int, Tensor], epoch: int, step: int
    ) -> None:
        """Raises: TrialFailed where the factors of units in the step are not those that
        they have `alone`; nothing is released.
        """
        if not alone:
            return
        own = torch.stack(list(alone.values())).double()
        beside = norms[torch.tensor(list(alone), device=norms.device)].double()
        bound = self.mechanism.max_grad_norm
        change = clip_factor(beside, bound) - clip_factor(own, bound)
        found = float((change.abs() * own).where(own.isfinite(), 0.0).max()) / bound
        self._largest_difference = max(self._largest_difference, found)
        if found > TOLERANCE:
            self._flat.zero_()
            raise TrialFailed(
                f"expected each unit's part of the clipped sum of step {step} in epoch"
                f" {epoch + 1} to be that of the unit alone within {TOLERANCE:g} C, got"
                f" {found:.3g} C: nothing of the step is released"
            )

    def _refuse_diverged(
        self, epoch: int, step: int, norms: Tensor | None = None
    ) -> None:
        """Raises: TrialFailed where weights, or some of `norms`, are not finite."""
        what = "weights" if norms is None else "gradients"
        values = (
            [p.detach() for p in self.layout.parameters] if norms is None else [norms]
        )
        if all(bool(each.isfinite().all()) for each in values):
            return
        raise TrialFailed(
            f"expected finite {what} in step {step} of epoch {epoch + 1}, got others:"
            " the trial diverged, nothing of the step is released (lower"
            " training.learning_rate, or privacy.noise_multiplier with a larger batch)"
        )

    def _add_clipped(self, draw: SampledBatch) -> tuple[Tensor, Tensor]:
        """Add this process' clipped units, in original scale, to the flat buffer: (sum
        of losses, norms of the units with records).
        """
        weights = draw.weights
        norms = []
        of_losses = torch.zeros(2, dtype=torch.float64, device=self.layout.device)
        limit, together = self._physical, self._clips_together
        # The only unit of a step is clipped in place, several are added up from a
        # second buffer.
        is_only = int((draw.sizes > 0).sum()) == 1
        for part in passes(draw, limit=limit, units_apart=not together):
            if part.whole and together:
                found, losses = self._add_units(draw, part, weights)
                norms.append(found)
            else:
                gradient = self._flat if is_only else self._second_buffer
                losses = self._add_piece(draw, part, weights, gradient)
                if part.ends:
                    norms.append(self._hook.clip_(gradient).reshape(1))
                if part.ends and gradient is not self._flat:
                    self._flat.data.add_(gradient.data)
                    gradient.zero_()
            of_losses += sum_of_losses(losses)
        every = torch.cat(norms) if norms else of_losses.new_zeros(0)
        return of_losses, every

    def _add_units(
        self, draw: SampledBatch, part: PhysicalBatch, weights: NDArray[np.float32]
    ) -> tuple[Tensor, Tensor]:
        """Several whole units in one pass: (norms of those with records, losses)."""
        where = slice(part.start, part.stop)
        present, local = draw.present(where)
        return self._source.add_clipped(
            self._batch(draw.records[where]),
            self._tensor(weights[where], self.layout.dtype),
            self._flat,
            unit_of_record=torch.from_numpy(local.astype(np.int64)),  # read on the host
            num_units=present,
            max_grad_norm=self.mechanism.max_grad_norm,
            group_scale=self.group_scale,
        )

    @property
    def _has_one_unit(self) -> bool:
        """Whether every step of this process has one unit, a micro-batch of several
        records.
        """
        mechanism = self.mechanism
        units = mechanism.num_microbatches // self.comm.world_size
        return mechanism.microbatch_size > 1 and units == 1

    @property
    def _clips_together(self) -> bool:
        """Whether the units of a pass are clipped from one backward pass.

        By the mechanism alone, never by what was drawn: both ways bound a unit's norm,
        but not by the same number, so that a unit that is alone in one batch and not in
        another would move.
        """
        if self._has_one_unit:
            return False
        if self._source.per_unit:
            return True
        mechanism = self.mechanism
        one_record = mechanism.microbatch_size == mechanism.max_records_per_group == 1
        return self._source.per_record and one_record

    @functools.cached_property
    def _second_buffer(self) -> FlatGradient:
        return FlatGradient(self.layout)

    def _add_noise(self, epoch: int, index: int) -> None:
        """Add the noise of this process' logical workers: one draw of their summed
        variance.
        """
        std = self.mechanism.worker_noise_std_at(epoch) * math.sqrt(self._local_workers)
        if std == 0.0:
            return
        segments = [(slice(0, self.layout.size), std)]
        # `paper` adds after the rescale by alpha_k, `central` before it.
        if self.mechanism.noise_calibration == "central":
            segments = self._segments(std)
        first_worker = self.comm.rank * self._local_workers
        stream = self._key.stream(*self._stream, first_worker, index)
        add_noise_(
            self._flat.data, stream=stream, segments=segments, secure=self._secure
        )

    def _segments(self, std: float) -> list[tuple[slice, float]]:
        """Each group with std * alpha_k; neighbours that share it are one segment."""
        merged: list[tuple[slice, float]] = []
        for k, alpha in enumerate(self._alphas):
            where = self.layout.segment(k)
            if merged and merged[-1][1] == std * alpha:
                where = slice(merged.pop()[0].start, where.stop)
            merged.append((where, std * alpha))
        return merged

    def _set_scale(self, alpha: Tensor) -> None:
        self.group_scale = alpha.cpu()  # fixed once, read at every step
        self._alphas: list[float] = alpha.tolist()
        self._hook = GradientHook(
            max_grad_norm=self.mechanism.max_grad_norm,
            group_scale=self.group_scale.to(self.layout.device),
        )
        self._scale_is_known = True

    def _take_public_scale(self, batch: Any | None) -> None:
        if batch is None:
            raise InvalidInput(
                "expected a public batch with group_scale public, got none"
            )
        self._flat.zero_()
        with self._watched():
            self._source.add_mean(batch, self._flat)
        self._set_scale(self._scale_of_mean(1.0))

    def _take_raw_scale(self, draw: SampledBatch) -> None:
        """The paper's alpha_k: norms of the first mean gradient, released without
        noise.
        """
        self._flat.zero_()
        for part in passes(draw, limit=self._physical, units_apart=False):
            self._add_piece(draw, part, draw.weights, self._flat)
        self.comm.all_reduce_sum(self._flat.message)
        self._set_scale(self._scale_of_mean(self._divisor(draw)))
        self._flat.zero_()

    def _scale_of_mean(self, divisor: float) -> Tensor:
        """alpha_k of the gradient in the flat buffer divided by `divisor`."""
        unit = self.mechanism.normalise == "unit"
        norms = self._flat.group_norms() / divisor
        return scaling.from_norms(norms, unit=unit, cap=self.mechanism.cap)

    def _remember_fixed(self) -> None:
        """Buffers, and parameters that no step trains, with the number of writes into
        each.
        """
        trained = set(self.layout.names)
        self._fixed = [
            (name, tensor, tensor._version)
            for name, tensor in (
                *self.model.named_buffers(),
                *self.model.named_parameters(),
            )
            if name not in trained
        ]

    def _refuse_changed(self) -> None:
        """What a training pass writes into them would carry private statistics past the
        noise.
        """
        now = dict((*self.model.named_buffers(), *self.model.named_parameters()))
        for name, tensor, version in self._fixed:
            if now.get(name) is not tensor or tensor._version != version:
                raise TrialFailed(
                    "expected buffers and frozen parameters that training leaves alone,"
                    f" got {name} changed: it would carry statistics of the records"
                    " past the noise"
                )


def _whole_units(
    draw: SampledBatch, part: SampledBatch, norms: dict[int, Tensor]
) -> dict[int, Tensor]:
    """`norms` of units of `part` by their places among the units of `draw` that have
    records, for those that are in `part` with all of their records.
    """
    place_of = np.cumsum(draw.sizes > 0) - 1
    unit_of = dict(zip(draw.records.tolist(), draw.unit.tolist(), strict=True))
    found = {}
    for unit, norm in norms.items():
        whole = unit_of[int(part.records[part.unit == unit][0])]
        if draw.sizes[whole] == part.sizes[unit]:
            found[int(place_of[whole])] = norm
    return found
