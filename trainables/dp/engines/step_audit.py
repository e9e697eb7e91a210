"""The step audit: the engine's own step on chosen neighbouring inputs, against its
claim.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from trainables import catalogue
from trainables.dp.accounting.gaussian import gaussian_epsilon
from trainables.dp.audit.audit import StepAudit, distinguish, effective_multiplier
from trainables.dp.engines._audit_model import (
    ChosenBatch,
    ChosenByRecord,
    ChosenGradients,
    ChosenRecords,
    draw_of,
)
from trainables.dp.engines.engine import Engine, Setup
from trainables.dp.mechanism import Mechanism
from trainables.dp.noise import public_key
from trainables.errors import InvalidInput
from trainables.system.communication import Alone

_WIDTHS = (
    64,
    128,
    256,
)  # groups of different size, so that data-dependent alpha_k differ
_FALSE_ALARM = 1e-4
_DELTA = 1e-5
_HUGE = 1e3  # gradients of this many C, of which clipping keeps only the direction

_Units = tuple[tuple[int, ...], ...]
_Sides = dict[
    _Units, tuple[np.ndarray, list[slice]]
]  # releases of an input, and their groups


@dataclass(frozen=True)
class _Pair:
    """Neighbouring inputs: the rows in the table of each unit with records."""

    name: str
    left: _Units
    right: _Units


def audit_step(
    mechanism: Mechanism, *, calls: int = 1_200, seed: int = 0, by_record: bool = False
) -> StepAudit:
    """Run the step of `mechanism` about `calls` times on adversarial neighbouring
    inputs.

    The engine, its clipping, noise and group scales are the real ones; only the model
    is tiny and the draw is chosen. `by_record`: clipped by `torch.func`, as a model of
    own code is, in place of the layers' books. Both the first and the last epoch are
    audited. No record is touched, so the result may be published. What it cannot see:
    the sampling rate and noise reused between steps.

    Raises: InvalidInput where `mechanism` adds no noise (nothing is claimed), or calls
    < 100.
    """
    if mechanism.effective_noise_multiplier_at(0) == 0:
        raise InvalidInput(
            "expected a mechanism with noise and a bound on alpha_k to audit, got"
            f" engine {mechanism.engine} with noise_multiplier"
            f" {mechanism.noise_multiplier:g} and alpha_k <="
            f" {mechanism.largest_group_scale:g}"
        )
    if calls < 100:
        raise InvalidInput(f"expected calls >= 100, got {calls}")
    epochs = sorted({0, mechanism.epochs - 1})
    audits = [
        _audit_epoch(
            mechanism,
            epoch,
            calls=calls // len(epochs),
            seed=seed,
            false_alarm=_FALSE_ALARM / len(epochs),
            model=ChosenByRecord if by_record else ChosenGradients,
        )
        for epoch in epochs
    ]
    return min(audits, key=lambda audit: (audit.passed, audit.estimate / audit.claimed))


_Toy = type[ChosenGradients] | type[ChosenByRecord]


def _audit_epoch(
    mechanism: Mechanism,
    epoch: int,
    *,
    calls: int,
    seed: int,
    false_alarm: float,
    model: _Toy,
) -> StepAudit:
    table, pairs = _inputs(mechanism)
    claimed = mechanism.effective_noise_multiplier_at(epoch)
    each = max(
        2, calls // (4 * len(pairs))
    )  # half of the calls look for the worst pair
    found = []
    sides: _Sides = {}  # several pairs have one of them in common
    for pair in pairs:
        left, right, groups = _release(
            mechanism, pair, table, epoch, each, (seed, 0), model, sides
        )
        share = false_alarm / (2 * len(pairs))
        found.append(
            effective_multiplier(left, right, groups=groups, false_alarm=share)
        )
    worst = min(range(len(pairs)), key=lambda number: found[number].estimate)
    # New calls on the worst pair, so that its choice causes no bias.
    again = max(2, calls // 4)
    left, right, groups = _release(
        mechanism, pairs[worst], table, epoch, again, (seed, 1), model, {}
    )
    multiplier = effective_multiplier(
        left, right, groups=groups, false_alarm=false_alarm / 4
    )
    bound = distinguish(
        left, right, groups=groups, delta=_DELTA, false_alarm=false_alarm / 4
    )
    epsilon = gaussian_epsilon(1 / claimed, _DELTA)
    # float32 rounds the clip: a part in 10^4 is no violation.
    kept = all(one.high >= claimed * (1 - 1e-4) for one in (*found, multiplier))
    return StepAudit(
        claimed=claimed,
        estimate=multiplier.estimate,
        interval=(multiplier.low, multiplier.high),
        epsilon_claimed=epsilon,
        epsilon_lower_bound=bound,
        delta=_DELTA,
        worst_input=pairs[worst].name,
        epoch=epoch,
        calls=2 * (each * len(pairs) + again),
        false_alarm=_FALSE_ALARM,
        passed=kept and bound <= epsilon,
    )


def _inputs(mechanism: Mechanism) -> tuple[torch.Tensor, list[_Pair]]:
    """A table of gradients and the pairs of neighbouring inputs made of its rows.

    Row 0 is harmless. Each group alone, and all together, have rows of opposite huge
    gradients, for neighbours that reverse a clipped gradient. One row is not finite.
    """
    bound, width = mechanism.max_grad_norm, sum(_WIDTHS)
    rows = [torch.full((width,), 0.1 * bound / math.sqrt(width))]
    directions = []
    start = 0
    for group in _WIDTHS:
        directions.append((f"group of {group}", torch.zeros(width)))
        directions[-1][1][start] = 1.0
        start += group
    directions.append(("all groups", torch.stack([d for _, d in directions]).sum(0)))
    pairs = []
    alone = mechanism.microbatch_size == 1
    replaced = mechanism.neighboring_relation == "replace_one"
    for name, direction in directions:
        there, back = len(rows), len(rows) + 1
        rows += [_HUGE * bound * direction, -3 * _HUGE * bound * direction]
        if alone and replaced:
            pairs.append(_Pair(name, ((0,), (there,)), ((0,), (back,))))
        elif alone:
            pairs.append(_Pair(name, ((0,),), ((0,), (there,))))
            pairs.append(_Pair(f"{name}, else empty", (), ((there,),)))
        elif replaced:
            pairs.append(_Pair(name, ((0, there), (0,)), ((0, back), (0,))))
        else:
            pairs.append(_Pair(name, ((there,), (0,)), ((there, back), (0,))))
    broken = len(rows)
    rows.append(torch.full((width,), math.nan))
    left = ((0,), (1,)) if alone and replaced else ((0, 1),) if replaced else ((0,),)
    right = ((0,), (broken,)) if alone else ((0, broken),)
    pairs.append(_Pair("not finite", left, right))
    return torch.stack(rows), pairs


def _release(
    mechanism: Mechanism,
    pair: _Pair,
    table: torch.Tensor,
    epoch: int,
    calls: int,
    names: tuple[int, int],
    model: _Toy,
    sides: _Sides,
) -> tuple[np.ndarray, np.ndarray, list[slice]]:
    """The releases of `calls` steps on either input, times M: [calls, D] each, and the
    groups. `sides` takes those of each input, and has some.
    """
    for units in (pair.left, pair.right):
        if units in sides:
            continue
        engine = _engine(mechanism, units, table, names, model)
        groups = [engine.layout.segment(k) for k in range(len(engine.layout.names))]
        released = np.empty((calls, engine.layout.size))
        for call in range(calls):
            engine.step(epoch, call + 1)
            released[call] = engine.released.numpy()
        sides[units] = released * mechanism.num_microbatches, groups
    (left, groups), (right, _) = sides[pair.left], sides[pair.right]
    return left, right, groups


def _engine(
    mechanism: Mechanism,
    units: _Units,
    table: torch.Tensor,
    names: tuple[int, int],
    model: _Toy = ChosenGradients,
) -> Engine:
    """The mechanism's engine on this input, its group scales fixed by the harmless
    row.
    """
    batch = ChosenBatch(draw_of([[0]]))
    engine: Engine = catalogue.entry("engines", mechanism.engine).make(
        model(_WIDTHS),
        mechanism,
        Setup(
            loader=ChosenRecords(table),
            ids=np.arange(len(table)),
            learning_rate=1e-3,
            comm=Alone(),
            key=public_key(names[0], f"step audit {names[1]}"),
            public_batch=table[:1],
            sampler=batch,
            compares=False,
        ),
    )
    if mechanism.group_scale.startswith("first_step"):
        engine.step(0, 0)
    # Where M is smaller than the units wanted, the harmless last one is left out.
    most = len(units) if mechanism.microbatch_size == 1 else mechanism.num_microbatches
    batch.now = draw_of(units[:most])
    return engine
