"""The trials of a private selection: their number, their points, and the best one.

Papernot & Steinke 2022: the number is drawn first, from a law independent of the data,
and each trial is an independent draw, with replacement, from one distribution over the
space. Pure: all randomness comes from a secret argument, and the same secret gives the
same trials again.
"""

import hashlib
import hmac
import math
from collections.abc import Sequence

import numpy as np

from search_spaces.expansion import Point, axes_of, points_at
from search_spaces.search import NumTrials
from search_spaces.space import SearchSpace
from sweep.results import select
from sweep.store.plans import PlannedTrial
from sweep.store.sweeps import TrialRecord
from trainables import figures
from trainables.config import objectives
from trainables.dp.accounting import renyi
from trainables.errors import InvalidInput

# Consecutive draws without a valid config after which the space is refused.
_PATIENCE = 1_000


def law_of(space: SearchSpace) -> NumTrials:
    """The law of a private selection's number of trials, with its mean. The space must
    be one that was read, with the strategy private_selection.
    """
    assert space.search.num_trials is not None  # the space was read
    return space.search.num_trials


def random_of(secret: bytes, sweep_id: str) -> np.random.Generator:
    """The generator of one sweep's draws, which is the same at every call. `secret` is
    the home's key, which never leaves it: who knows it knows how many trials were
    drawn.
    """
    mac = hmac.new(secret, b"private selection\0" + sweep_id.encode(), hashlib.sha256)
    return np.random.default_rng(int.from_bytes(mac.digest()))


def draw_number(law: NumTrials, random: np.random.Generator) -> int:
    """Draw the number of trials from its law, independently of all data: at least 1, of
    a Poisson law at least 0. The same state of `random` gives the same number.
    """
    if law.law == "poisson":
        return int(random.poisson(law.mean))
    if law.law == "geometric":
        return int(random.geometric(1 / law.mean))
    return int(random.logseries(1 - renyi.halting(law.mean)))


def draw_points(
    space: SearchSpace,
    configurations: Sequence[PlannedTrial],
    number: int,
    random: np.random.Generator,
) -> list[Point]:
    """`number` points, each independent of the others: one of `configurations` (with
    replacement, each as likely), and along a range any of its values.

    Raises: InvalidInput without a configuration, or where almost no value of a range
    makes one.
    """
    if not configurations:
        raise InvalidInput("expected a configuration that may be drawn, got none")
    variants = {variant.name: variant for variant in space.searched_variants}
    found = []
    for _ in range(number):
        for _ in range(_PATIENCE):
            chosen = configurations[int(random.integers(len(configurations)))]
            variant = variants[chosen.variant]
            shares = {
                path: axis.range.at(float(random.random()))
                for path, axis in axes_of(space, variant).items()
                if axis.range is not None
            }
            values = {
                path: shares.get(path, value) for path, value in chosen.values.items()
            }
            [point] = points_at(space, variant, values)
            if point.config is not None and point.reason is None:
                found.append(point)
                break
        else:
            raise InvalidInput(
                f"expected ranges whose values give valid configs, got {_PATIENCE}"
                " invalid draws in a row"
            )
    return found


def best_of(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """The trial with the best validation figure; of equal ones the first, which is a
    uniform choice because the draws are independent. A trial without a result or a
    figure is the worst. None without a trial.
    """
    if not records:
        return None
    names = objectives.quality(records[0].plan.task)
    return min(records, key=lambda record: _cost(record, names[0]))


def _cost(record: TrialRecord, metric: str) -> float:
    value = select.value(record, metric) if record.status.is_finished else None
    if value is None or math.isnan(value):
        return math.inf
    return figures.cost(metric, value)
