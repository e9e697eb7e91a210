"""The gradients that several engines wait for, in one forward and backward pass.

Each member of a stack has its own engine, model and flat buffer; only the sums of gradients are
found together. What one member gets depends on its own records and weights alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainables.data.batches import PackedBatch, joined
from trainables.engines._gradient import GradientSource
from trainables.layers.bookkeeping import add_clipped
from trainables.layers.stacked.twin import Twin, stackable
from trainables.layers.tape import Tape, Units
from trainables.privacy.flat import FlatGradient

Answer = tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Clip:
    """What `GradientSource.add_clipped` is told beside the batch."""

    unit_of_record: Tensor
    num_units: int
    max_grad_norm: float
    group_scale: Tensor


@dataclass(frozen=True, eq=False)
class Request:
    """One call of a member's `GradientSource`: the answer is (losses,), or (norms, losses)."""

    source: GradientSource
    batch: Any
    weights: Tensor
    out: FlatGradient
    clip: Clip | None

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for requests that one pass can answer."""
        plain = isinstance(self.batch, PackedBatch) and self.source.precision == "fp32"
        if not (plain and stackable(self.source.model)):
            return (id(self),)
        return () if self.clip is None else tuple(self.clip.group_scale.tolist())

    def alone(self) -> Answer:
        """The answer as a trial by itself gets it."""
        if self.clip is None:
            return (self.source.add(self.batch, self.weights, self.out),)
        return self.source.add_clipped(
            self.batch,
            self.weights,
            self.out,
            unit_of_record=self.clip.unit_of_record,
            num_units=self.clip.num_units,
            max_grad_norm=self.clip.max_grad_norm,
            group_scale=self.clip.group_scale,
        )


Post = Callable[[Request], Answer]


class PostedSource(GradientSource):
    """A member's source: hands each call to `post`, which answers it, alone or with others."""

    def __init__(self, model: nn.Module, post: Post) -> None:
        super().__init__(model)
        self._own = GradientSource(model)
        self._post = post

    def add(self, batch: Any, weights: Tensor, out: FlatGradient) -> Tensor:
        """See `GradientSource.add`."""
        self._own.precision = self.precision
        (losses,) = self._post(Request(self._own, batch, weights, out, None))
        return losses

    def add_clipped(
        self,
        batch: Any,
        weights: Tensor,
        out: FlatGradient,
        *,
        unit_of_record: Tensor,
        num_units: int,
        max_grad_norm: float,
        group_scale: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """See `GradientSource.add_clipped`."""
        self._own.precision = self.precision
        clip = Clip(unit_of_record, num_units, max_grad_norm, group_scale)
        norms, losses = self._post(Request(self._own, batch, weights, out, clip))
        return norms, losses


class Stack:
    """Answers requests of several members, those of one kind together.

    `passes` counts the forward and backward passes by the number of requests that each answered.
    """

    def __init__(self) -> None:
        self.passes: Counter[int] = Counter()
        self._twin: Twin | None = None

    def answer(self, requests: Sequence[Request]) -> list[Answer | Exception]:
        """The answer to each request, in order, or what broke the pass that it was in."""
        kinds: dict[tuple[object, ...], list[int]] = {}
        for place, request in enumerate(requests):
            kinds.setdefault((request.clip is None, *request.kind), []).append(place)
        found: dict[int, Answer | Exception] = {}
        for places in kinds.values():
            together = [requests[place] for place in places]
            self.passes[len(together)] += 1
            try:
                answers = [together[0].alone()] if len(together) == 1 else self._pass(together)
                found.update(zip(places, answers, strict=True))
            except Exception as error:  # noqa: BLE001  told to the members that were in the pass
                found.update(dict.fromkeys(places, error))
        return [found[place] for place in range(len(requests))]

    def _pass(self, requests: Sequence[Request]) -> list[Answer]:
        models = tuple(request.source.model for request in requests)
        if self._twin is None or self._twin.models != models:
            self._twin = Twin(models)
        batch = joined([r.batch for r in requests], pointers=self._twin.pointers)
        weights = torch.cat([r.weights for r in requests])
        views = {p: view for r in requests for p, view in r.out.views.items()}
        counts = [r.batch.num_records for r in requests]
        clips = [r.clip for r in requests if r.clip is not None]
        if not clips:
            losses = self._twin.losses(batch, weights, Tape(views))
            return [(own,) for own in torch.split(losses, counts)]
        tape = Tape()
        losses = self._twin.losses(batch, weights, tape)
        sizes = [clip.num_units for clip in clips]
        before = (np.cumsum(sizes) - sizes).tolist()
        units = torch.cat(
            [clip.unit_of_record + first for clip, first in zip(clips, before, strict=True)]
        )
        bounds = torch.tensor([clip.max_grad_norm for clip in clips], dtype=weights.dtype)
        inverse = (1 / clips[0].group_scale.double().square()).tolist()
        norms = add_clipped(
            tape.entries,
            Units(units, sum(sizes), device=weights.device),
            {p: x for r in requests for p, x in zip(r.out.layout.parameters, inverse, strict=True)},
            views,
            max_grad_norm=bounds.repeat_interleave(torch.tensor(sizes)).to(weights.device),
        )
        return list(zip(torch.split(norms, sizes), torch.split(losses, counts), strict=True))
