"""The base of all engines: the order of a step, the optimiser, the figures and the
saved state.

A step draws the records, puts this process' share of the gradient into one flat buffer,
sums it over the processes with one all-reduce, divides by a fixed number and calls the
optimiser. Engines differ in the share and the divisor.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables import catalogue
from trainables.dp import box_muller  # noqa: F401  # the noise in less time
from trainables.dp.engines._physical_batches import PhysicalBatch
from trainables.dp.engines.gradient import GradientSource
from trainables.dp.flat import FlatGradient, Layout
from trainables.dp.layers.precision import Precision
from trainables.dp.mechanism import Mechanism
from trainables.dp.noise import SecretKey
from trainables.dp.optimizers._optimizer import Optimizer
from trainables.dp.population import Ids
from trainables.dp.sampling import SampledBatch, Sampler, sampler
from trainables.errors import TrialFailed
from trainables.system.communication import Communicator


class Loader(Protocol):
    """The source of a step's records. An engine asks it for batches by record ids, in
    any number and order, and never for anything else; equal ids must give equal
    records. One with `lengths(ids)`, int64[n], lets records of like length pass
    together.
    """

    def batch(self, ids: Ids) -> Any:
        """The batch of these records in this order, as the model's `losses` takes
        it.
        """


@dataclass(frozen=True, eq=False)
class StepStats:
    """Sums over this process' part of one step, all for the curator only. They are
    tensors, read once an epoch because reading waits for the device.

    `loss` over `records` but the `lost` ones, whose loss is not finite; `norm` (before
    clipping, scaled space) and `clipped` over `units` that have records; `nonfinite`
    counts the units whose gradient is not finite, which are in neither.
    """

    loss: Tensor
    records: int
    lost: Tensor
    norm: Tensor
    clipped: Tensor
    nonfinite: Tensor
    units: int

    @classmethod
    def of(
        cls, of_losses: Tensor, norms: Tensor, *, records: int, bound: float
    ) -> StepStats:
        """From a `sum_of_losses` and the norms of the units; above `bound` one is
        clipped.
        """
        loss, lost = of_losses.unbind()
        norms = norms.double()
        finite = norms.isfinite()
        return cls(
            loss=loss,
            records=records,
            lost=lost,
            norm=norms.where(finite, 0.0).sum(),
            clipped=(finite & (norms > bound)).sum(),
            nonfinite=(~finite).sum(),
            units=len(norms),
        )

    def vector(self) -> Tensor:
        """float64[7]: the sums in the order of the fields."""
        numbers = [getattr(self, field.name) for field in fields(self)]
        device = self.loss.device
        return torch.stack(
            [torch.as_tensor(x, dtype=torch.float64, device=device) for x in numbers]
        )


def epoch_figures(sums: Sequence[float]) -> dict[str, float]:
    """The figures of an epoch from the sums over its steps of `StepStats.vector`.
    `units` are the clipping units: records or micro-batches. Means are over finite
    losses and norms, NaN where there is none.

    >>> found = epoch_figures([3.0, 3.0, 1.0, 8.0, 1.0, 0.0, 4.0])
    >>> found["train_loss"], found["gradient_norm"], found["clip_fraction"]
    (1.5, 2.0, 0.25)
    """
    loss, records, lost, norm, clipped, nonfinite, units = sums
    return {
        "train_loss": _mean(loss, records - lost),
        "gradient_norm": _mean(norm, units - nonfinite),
        "clip_fraction": clipped / max(1.0, units),
        "nonfinite_gradients": nonfinite,
    }


def _mean(total: float, count: float) -> float:
    return total / count if count else math.nan


@dataclass(frozen=True, kw_only=True, eq=False)
class Setup:
    """The inputs of an engine beside the model and the mechanism.

    `ids` int64[n] are the training records; with unit group, `groups` int[n] are their
    groups and `text_keys` int64[n] key the choice among the records of a group. `key`
    is the attempt's secret, equal on every process, `seed` the public seed. `trial_id`
    and `attempt` separate the streams of noise. `physical_batch_size` bounds the
    records a process forwards at once. `public_batch` determines alpha_k with
    group_scale `public`. Without `secure_noise` a GPU draws noise with its own
    generator, which is no cipher. `precision` is that of the products in forward and
    backward passes (see `layers.precision`). `sampler` replaces the mechanism's
    sampling, for audits of a chosen batch. `optimizer` and `learning_rate_decay` are
    names of those registries. `gradient_clip_norm` bounds the norm of the mean gradient
    of an engine without privacy. `compares` is False for an audit, which measures the
    clipped sum itself (see `_check`).
    """

    loader: Loader
    ids: Ids
    learning_rate: float
    key: SecretKey
    comm: Communicator
    seed: int = 0
    trial_id: str = ""
    attempt: int = 0
    groups: NDArray[np.integer] | None = None
    text_keys: Ids | None = None
    physical_batch_size: int | None = None
    public_batch: Any | None = None
    secure_noise: bool = True
    precision: Precision = "fp32"
    sampler: Sampler | None = None
    optimizer: str = "adam"
    learning_rate_decay: str = "constant"
    gradient_clip_norm: float | None = None
    compares: bool = True

    def sampler_for(self, mechanism: Mechanism) -> Sampler:
        """The sampler of this process."""
        return self.sampler or sampler(
            self.ids,
            mechanism,
            seed=self.seed,
            key=self.key,
            trial_id=self.trial_id,
            attempt=self.attempt,
            groups=self.groups,
            text_keys=self.text_keys,
            rank=self.comm.rank,
            world_size=self.comm.world_size,
        )


class Engine(ABC):
    """Takes the steps of one trial on one process of its group.

    Every process of `comm` makes the same calls. `mechanism` is that of the steps, for
    accountants; `released` is the flat gradient that the last step gave to the
    optimiser, the whole release of the step.

    Raises: InvalidInput where the sampler refuses the mechanism or the number of
    processes.
    """

    def __init__(self, model: nn.Module, mechanism: Mechanism, setup: Setup) -> None:
        comm = setup.comm
        self.model = model
        self.comm = comm
        self.layout = Layout.of(model)
        self.released = torch.empty(0)
        self.mechanism = mechanism
        self._loader = setup.loader
        self._sampler = setup.sampler_for(mechanism)
        self._physical = setup.physical_batch_size
        self._clip_norm = setup.gradient_clip_norm
        self._source = GradientSource(model)
        self._source.precision = setup.precision
        self._flat = FlatGradient(self.layout)
        self._optimizer: Optimizer = catalogue.entry(
            "optimizers", setup.optimizer
        ).make(self.layout, learning_rate=setup.learning_rate)
        self._learning_rate = setup.learning_rate
        self._decay = catalogue.entry(
            "learning_rates", setup.learning_rate_decay
        ).factor
        self._repeats_batch = mechanism.is_whole_batch and self._physical is None
        self._last: tuple[Ids, Any] | None = None
        self._next_step = 0
        self._local_workers = mechanism.num_workers // comm.world_size
        _refuse_different_weights(self.layout, comm)

    @abstractmethod
    def _fill(self, draw: SampledBatch, *, epoch: int, index: int) -> StepStats:
        """Put this process' share of the step's sum into `self._flat`, noise
        included.
        """

    @abstractmethod
    def _divisor(self, draw: SampledBatch) -> float:
        """The divisor of the sum over all processes."""

    def step(self, epoch: int, step: int) -> StepStats:
        """Take step `step` (from 0) of epoch `epoch`.

        Raises: TrialFailed where the step was taken before (its noise must not be
            reused for another gradient) or a worker's share is missing from the sum;
            nothing is released.
        """
        index = self.mechanism.steps_until(epoch) + step
        if index < self._next_step:
            raise TrialFailed(
                f"expected step {self._next_step} or later, got step {index} again: its"
                " noise was used"
            )
        self._next_step = index + 1
        self._optimizer.learning_rate = self._learning_rate * self._decay(
            index / self.mechanism.steps
        )
        draw = self._sampler.draw(epoch, step)
        lengths = getattr(self._loader, "lengths", None)
        if self._physical is not None and lengths is not None:
            draw = _in_order_of(-lengths(draw.records), draw)  # like ones pass together
        begin_step = getattr(self.model, "begin_step", None)
        if begin_step is not None:
            begin_step(epoch, step)
        self.model.train()
        self._flat.zero_()
        stats = self._fill(draw, epoch=epoch, index=index)
        self._flat.message[-1] = self._local_workers
        self.comm.all_reduce_sum(self._flat.message)
        self._refuse_missing_share()
        self._optimizer.step(self._flat, share=1 / self._divisor(draw))
        self.released = self._flat.data
        return stats

    def run_epoch(self, epoch: int) -> dict[str, float]:
        """All steps of an epoch. The figures, over all processes, are for the curator
        only.
        """
        sums = torch.zeros(
            len(fields(StepStats)), dtype=torch.float64, device=self.layout.device
        )
        for step in range(self.mechanism.steps_in(epoch)):
            sums += self.step(epoch, step).vector()
        self.comm.all_reduce_sum(sums)
        return {**epoch_figures(sums.tolist()), **self._noise(epoch)}

    def _noise(self, epoch: int) -> dict[str, float]:
        """`noise_norm`: the expected norm of the noise in a mean gradient, in the space
        in which the noise is added: with `central` that of `gradient_norm`, scaled by
        alpha_k. It is computed from the mechanism alone and is public.
        """
        mechanism = self.mechanism
        if not mechanism.is_private:
            return {}
        on_sum = mechanism.worker_noise_std_at(epoch) * math.sqrt(mechanism.num_workers)
        return {
            "noise_norm": on_sum
            * math.sqrt(self.layout.size)
            / mechanism.num_microbatches
        }

    def state_dict(self) -> dict[str, Tensor]:
        """Flat tensors: optimiser, number of steps, and the state of a subclass."""
        return {
            "next_step": torch.tensor(self._next_step),
            **self._optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a `state_dict`, on a model whose weights are already restored."""
        self._optimizer.load_state_dict(state)
        self._next_step = int(state["next_step"])

    def _add_piece(
        self,
        draw: SampledBatch,
        part: PhysicalBatch,
        weights: NDArray[Any],
        out: FlatGradient,
    ) -> Tensor:
        """Add the weighted gradients of a pass' records, unclipped, to `out`; their
        losses.
        """
        where = slice(part.start, part.stop)
        tensor = self._tensor(weights[where], self.layout.dtype)
        return self._source.add(self._batch(draw.records[where]), tensor, out)

    def _batch(self, ids: Ids) -> Any:
        """The loader's batch, on the model's device; the last one again where it is the
        same.
        """
        if self._last is not None and np.array_equal(self._last[0], ids):
            return self._last[1]
        batch = self._loader.batch(ids)
        if self.layout.device.type != "cpu" and hasattr(batch, "to"):
            batch = batch.to(self.layout.device)
        if self._repeats_batch:
            self._last = (ids, batch)
        return batch

    def _tensor(self, values: np.ndarray[Any, Any], dtype: torch.dtype) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(
            self.layout.device, dtype
        )

    def _refuse_missing_share(self) -> None:
        """The sum must hold the share, and so the noise, of each of the N workers."""
        counted, expected = self._flat.message[-1], self.mechanism.num_workers
        if counted.is_cuda:
            torch._assert_async(counted == expected)
        elif counted != expected:
            raise TrialFailed(
                f"expected the shares of {expected} workers in the sum, got"
                f" {float(counted):g}: the step is aborted, its noise is incomplete"
            )


def sum_of_losses(losses: Tensor) -> Tensor:
    """float64[2]: the sum of the finite losses, and the number of the others."""
    finite = losses.isfinite()
    return torch.stack(
        [losses.double().where(finite, 0.0).sum(), (~finite).sum().double()]
    )


def _refuse_different_weights(layout: Layout, comm: Communicator) -> None:
    """Processes that start from different weights would average unrelated gradients."""
    sums = [float(p.detach().double().sum()) for p in layout.parameters]
    if any(other != sums for other in comm.gather(sums)):
        raise TrialFailed(
            "expected equal weights on every worker at the start, got different ones"
        )


def _in_order_of(values: NDArray[np.integer], draw: SampledBatch) -> SampledBatch:
    """The same step with its records in the order of `values` [R]: those of each unit,
    and where each is alone its unit with it.
    """
    if (draw.sizes == 1).all():
        order = np.argsort(values, kind="stable")
        return replace(draw, records=draw.records[order], worker=draw.worker[order])
    order = np.lexsort((values, draw.unit))
    return replace(draw, records=draw.records[order])
