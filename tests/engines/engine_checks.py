"""What must hold of every engine, as functions that raise AssertionError: the tests
call them, and the mutants of `test_mutants` must each make one of them fail.

Statistical checks are two-sided with a false-alarm rate of 1e-6 for each comparison;
the keys are fixed, so they do not flicker.
"""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import torch
from scipy.stats import binom, chi2, norm

from tests.whole_trial.naive import sum_of_clipped
from trainables import catalogue
from trainables.config.mechanism import build
from trainables.config.trial import parse
from trainables.dp.engines._audit_model import (
    ChosenBatch,
    ChosenByRecord,
    ChosenGradients,
    ChosenRecords,
    draw_of,
)
from trainables.dp.engines.engine import Setup
from trainables.dp.noise import public_key
from trainables.dp.sampling import sampler
from trainables.system.communication import Alone

FALSE_ALARM = 1e-6
WIDTHS = (64, 128, 256)
SIZE = sum(WIDTHS)


class PlainGradients(ChosenByRecord):
    """Cannot be taken apart into records, and keeps no books: the engines' slow
    path.
    """

    record_groups = None


# The three ways to a clipped sum; all do the same.
WAYS = {
    "books": ChosenGradients,
    "torch.func": ChosenByRecord,
    "autograd": PlainGradients,
}


class Meeting:
    """Communicators of `world_size` threads of this process."""

    def __init__(self, world_size):
        self._slots = [None] * world_size
        self._barrier = threading.Barrier(world_size, timeout=120)
        self.members = [_Member(self, rank, world_size) for rank in range(world_size)]

    def exchange(self, rank, value):
        self._slots[rank] = value
        self._barrier.wait()
        values = list(self._slots)
        self._barrier.wait()
        return values

    def run(self, work):
        """`work(comm)` on every thread; the results in rank order, the first error
        raised.
        """

        def body(member):
            try:
                return work(member)
            except Exception:
                self._barrier.abort()
                raise

        with ThreadPoolExecutor(len(self.members)) as pool:
            ended = [pool.submit(body, member) for member in self.members]
        errors = [each.exception() for each in ended if each.exception()]
        for error in sorted(
            errors, key=lambda e: isinstance(e, threading.BrokenBarrierError)
        ):
            raise error
        return [each.result() for each in ended]


class _Member:
    def __init__(self, meeting, rank, world_size):
        self._meeting, self.rank, self.world_size = meeting, rank, world_size
        self.sent = []

    def all_reduce_sum(self, tensor):
        self.sent.append(tensor.clone())
        values = self._meeting.exchange(self.rank, tensor.clone())
        tensor.copy_(torch.stack(values).sum(0))

    def broadcast(self, value):
        return self._meeting.exchange(self.rank, value)[0]

    def gather(self, value):
        return self._meeting.exchange(self.rank, value)


def mechanism(
    engine="edp_sgd", *, workers=4, batch=16, records=200, epochs=3, **privacy
):
    training = {"expected_batch_size": batch, "num_workers": workers, "epochs": epochs}
    config = parse(
        {
            "engine": engine,
            "data": {"num_records": records},
            "privacy": privacy,
            "training": training,
        }
    )
    return build(config, num_records=records)


def engine_on(mech, table, units=None, *, model=None, comm=None, **setup):
    """The mechanism's engine over a table of chosen gradients, or over as many records
    of another loader; with `units`, always this draw.
    """
    if units is not None:
        setup["sampler"] = ChosenBatch(draw_of(units))
    if "loader" not in setup:
        setup["loader"] = ChosenRecords(table)
    usual = {
        "learning_rate": 1e-3,
        "key": public_key(0, "tests"),
        "comm": comm or Alone(),
    }
    return catalogue.entry("engines", mech.engine).make(
        ChosenGradients(WIDTHS) if model is None else model,
        mech,
        Setup(**{**usual, "ids": np.arange(len(table)), **setup}),
    )


def weights_of(engine):
    """float32[D]: its model's parameters, flat."""
    return torch.cat([p.detach().flatten() for p in engine.model.parameters()])


class OneBatch:
    def __init__(self, batch):
        self.made = batch

    def batch(self, ids):
        return self.made


def engine_of(name, model, loader, **fields):
    """As a trial makes it, of a batch of all records; `fields` are those of its
    config.
    """
    n = loader.made.num_records
    training = {"expected_batch_size": n, **fields.pop("training", {})}
    config = parse(
        {"engine": name, "training": training, "data": {"num_records": n}, **fields}
    )
    mech, precision = build(config, num_records=n), config.training.precision
    return engine_on(
        mech, range(n), model=model, loader=loader, precision=precision, compares=False
    )


def gradients(records, *, scale=1.0, seed=0):
    """A table of Gaussian gradients whose norms are about `scale`."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(records, SIZE, generator=generator) * scale / math.sqrt(SIZE)


def noise_of(mech, *, steps, world_size=1, **setup):
    """[steps, D]: what empty steps release, times M: noise alone, summed over all
    workers.
    """
    table = gradients(4)

    def work(comm):
        engine = engine_on(mech, table, [[]], comm=comm, public_batch=table, **setup)
        rows = []
        for step in range(steps):
            engine.step(0, step)
            rows.append(engine.released.clone())
        return torch.stack(rows) * mech.num_microbatches

    return Meeting(world_size).run(work)[0]


def by_group(values):
    """[D]: a number of each group at all of its coordinates."""
    return torch.cat(
        [torch.full((w,), value) for w, value in zip(WIDTHS, values, strict=True)]
    )


def public_batch():
    """Public gradients of unlike groups."""
    return gradients(3, seed=9) * by_group([w / 64 for w in WIDTHS])


def alphas(table):
    """alpha_k of the mean gradient of `table`, by hand."""
    norms = [float(part.norm()) for part in table.mean(0).split(list(WIDTHS))]
    return [n / math.sqrt(sum(m * m for m in norms)) for n in norms]


def check_noise_scale(mech, expected, **how):
    """The noise on the sum has standard deviation `expected[k]` in group k."""
    noise = noise_of(mech, steps=40, **how).double()
    for part, std in zip(noise.split(list(WIDTHS), dim=1), expected, strict=True):
        freedom = part.numel()
        statistic = float(part.square().sum()) / std**2
        low, high = (
            chi2.ppf(FALSE_ALARM / 2, freedom),
            chi2.isf(FALSE_ALARM / 2, freedom),
        )
        assert low < statistic < high, (
            f"std {math.sqrt(statistic / freedom) * std}, not {std}"
        )


def _uncorrelated(a, b):
    n = a.numel()
    correlation = float((a * b).sum() / (a.norm() * b.norm()))
    assert abs(correlation) * math.sqrt(n) < norm.isf(FALSE_ALARM / 2), correlation


def check_noise_is_independent(mech):
    """Across steps, coordinates and processes."""
    noise = noise_of(mech, steps=40)
    _uncorrelated(noise[:-1], noise[1:])
    _uncorrelated(noise[:-2], noise[2:])
    for lag in (1, 2, SIZE // 2, (SIZE + 1) // 2):
        _uncorrelated(noise[:, :-lag], noise[:, lag:])
    meeting = Meeting(2)

    def work(comm):
        engine = engine_on(mech, gradients(4), [[]], comm=comm)
        for step in range(20):
            engine.step(0, step)

    meeting.run(work)
    first, second = (torch.stack(member.sent)[:, :SIZE] for member in meeting.members)
    _uncorrelated(first, second)
    _uncorrelated(first[:-1], second[1:])


def reference_sum(table, units, *, bound, alpha):
    """The sum of clipped unit means by the definition, in float64."""
    return sum_of_clipped(
        ChosenByRecord(WIDTHS).double(),
        ChosenRecords(table.double()),
        [unit for unit in units if unit],
        max_grad_norm=bound,
        group_scale=torch.tensor(alpha),
    )[0]


def sum_and_scale(mech, table, units, *, way="books", **setup):
    """float64[D]: what a step without noise releases, times M; and its alpha_k."""
    silent, public = replace(mech, noise_multiplier=0.0), public_batch()
    model = WAYS[way](WIDTHS)
    engine = engine_on(silent, table, units, model=model, public_batch=public, **setup)
    engine.step(0, 0)
    alpha = alphas(public) if mech.group_scale == "public" else [1.0] * len(WIDTHS)
    return engine.released.double() * mech.num_microbatches, alpha


def check_sum(mech, table, units, **how):
    """Without noise a step releases the sum of clipped units over M, whatever was
    drawn.
    """
    found, alpha = sum_and_scale(mech, table, units, **how)
    expected = reference_sum(table, units, bound=mech.max_grad_norm, alpha=alpha)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5 * mech.max_grad_norm)


def change(mech, table, left, right, **how):
    """How far the sum moves between two draws, in scaled space, in units of C."""
    (before, alpha), (after, _) = (
        sum_and_scale(mech, table, each, **how) for each in (left, right)
    )
    return float(((after - before) / by_group(alpha)).norm()) / mech.max_grad_norm


def check_poisson(mech, *, steps=400, **how):
    """Inclusions are Binomial(steps, q) for every record, pairs meet with probability
    q^2, and the drawn join their micro-batches uniformly and independently.
    """
    n, q, bins = mech.num_records, mech.sample_rate, mech.num_microbatches
    coins = sampler(np.arange(n), mech, seed=0, key=public_key(1, "tests"), **how)
    included = np.zeros((steps, n), dtype=np.int64)
    unit = np.full((steps, n), -1)
    for step in range(steps):
        draw = coins.draw(0, step)
        included[step, draw.records] += 1
        unit[step, draw.records] = draw.unit
    assert included.max() <= 1, "a record twice in a step"
    _binomial(included.sum(), steps * n, q)
    for count in included.sum(0):
        _binomial(int(count), steps, q, share=n)
    # The size of a draw varies as a binomial does: its variance is not that of a fixed
    # size.
    sizes = included.sum(1)
    spread = float(((sizes - n * q) ** 2).sum()) / (n * q * (1 - q))
    assert chi2.ppf(FALSE_ALARM / 2, steps) < spread < chi2.isf(FALSE_ALARM / 2, steps)
    half = n // 2
    _binomial(
        int((included[:, :half] & included[:, half : 2 * half]).sum()),
        steps * half,
        q * q,
    )
    # Two steps in a row share a record as often as two independent ones.
    _binomial(int((included[:-1] & included[1:]).sum()), (steps - 1) * n, q * q)
    if mech.microbatch_size > 1:
        for j in range(bins):
            _binomial(int((unit == j).sum()), int(included.sum()), 1 / bins, share=bins)
        both = (unit[:, :half] >= 0) & (unit[:, half : 2 * half] >= 0)
        same = both & (unit[:, :half] == unit[:, half : 2 * half])
        _binomial(int(same.sum()), int(both.sum()), 1 / bins)
        # Bins filled in turn would be as even as they can be; independent ones are not.
        loads = np.stack([(unit == j).sum(1) for j in range(bins)], axis=1)
        wanted = sizes[:, None] / bins
        filled = sizes > 0
        uneven = float(
            ((loads - wanted) ** 2)[filled].sum() / (sizes[filled].mean() / bins)
        )
        freedom = filled.sum() * (bins - 1)
        assert uneven > 0.7 * freedom, f"micro-batches too even: {uneven / freedom}"


def _binomial(count, trials, p, *, share=1):
    level = FALSE_ALARM / (2 * share)
    low, high = binom.ppf(level, trials, p), binom.isf(level, trials, p)
    assert low <= count <= high, f"{count} of {trials} at probability {p}"


def check_shuffle(mech, *, world_size=1):
    """Over an epoch every record is in exactly one step, on one process, in one
    unit.
    """
    for epoch in range(2):
        seen = np.zeros(mech.num_records, dtype=np.int64)
        for rank in range(world_size):
            mine = sampler(
                np.arange(mech.num_records), mech, seed=3, key=public_key(1, "tests"), rank=rank,
                world_size=world_size,
            )  # fmt: skip
            for step in range(mech.steps_in(epoch)):
                draw = mine.draw(epoch, step)
                np.add.at(seen, draw.records, 1)
                units = mech.num_microbatches // world_size
                assert mech.microbatch_size == 1 or draw.num_units == units
        assert (seen == 1).all(), f"{(seen != 1).sum()} records not exactly once"
