"""What a trial with `privacy.covers: all` shows of its validation and test records:
sums of errors with noise (`dp.held_out`), and nothing else.

Each record is predicted alone, so that what it adds to a sum is bit for bit the same
whatever the other records are: a batch moves the last digits of a score, and a near-tie
turns on these. A record that cannot be predicted adds the most that any record can, and
ends no trial.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from trainables.data.split import held_out_sizes
from trainables.dp.held_out import Contributions, HeldOut, Integers, ratio_interval
from trainables.dp.population import Ids, Population
from trainables.figures import MOST_ERRORS, MOST_LABELS, RELEASED_VALIDATION
from trainables.metrics import Counts
from trainables.metrics._counts import from_table, table
from trainables.tasks._inference import Labels

if TYPE_CHECKING:
    from trainables.tasks._setup import TrialSetup

# Labels a declared test record, of which no fewer are divided by: each has an intent,
# where the schema has intents.
_LEAST_LABELS = {True: 0.5, False: 0.1}


@dataclass(frozen=True, eq=False)
class Alone:
    """The counts [n] of records that were predicted each by itself, in their order;
    `failed` bool[n]: those without a prediction.
    """

    counts: Counts
    failed: np.ndarray


def predict_alone(setup: TrialSetup, ids: Ids) -> Alone:
    """The counts of `ids` int64[n], each record in a pass of its own. Which process
    computes a record follows from the record's own hash.
    """
    keys = setup.corpus.part_keys
    assert keys is not None  # of data.split=hash
    owner = np.asarray(keys[ids]) % np.uint64(setup.comm.world_size)
    mine = np.flatnonzero(owner == setup.comm.rank)
    setup.model.eval()
    share = [(place, *_row(setup, ids[place : place + 1])) for place in mine]
    every = sorted(
        (each for found in setup.comm.gather(share) for each in found),
        key=lambda each: each[0],
    )
    nothing = table(setup.counts(ids[:0], Labels(ids[:0], [])))
    rows = np.concatenate([nothing, *(row for _, row, _ in every)])
    return Alone(from_table(rows), np.array([failed for *_, failed in every], bool))


def _row(setup: TrialSetup, record: Ids) -> tuple[Integers, bool]:
    """The counts [1, .] of one record, and whether it has no prediction."""
    device = next(setup.model.parameters()).device
    try:
        with torch.no_grad():
            predicted = setup.model.predict(setup.loader.batch(record).to(device))
        intents = predicted.intents.cpu().numpy()
        if intents[0] >= 0:
            labels = Labels(intents, [predicted.tag_paths.cpu().numpy()])
            return table(setup.counts(record, labels)), False
    except Exception:  # noqa: BLE001, S110  a failure would show what one record does
        pass
    [length] = setup.loader.lengths(record)
    none = Labels(np.full(1, -1), [np.zeros(length, dtype=np.int64)])
    return table(setup.counts(record, none)), True


def validate(setup: TrialSetup, *, epochs: range) -> dict[str, float]:
    """The errors of a validation unit, at most 3 a record, as the noised sum over the
    declared number of units. `epochs` (from 0) pay for it.
    """
    ids = setup.split.validation
    errors = _errors(setup, ids, predict_alone(setup, ids))
    found = _releases(setup).release("validation", {"errors": errors}, epochs=epochs)
    declared, _ = held_out_sizes(setup.mechanism.num_records)
    return {RELEASED_VALIDATION: found["errors"].value / declared}


def test(setup: TrialSetup, alone: Alone, *, epochs: range) -> dict[str, float]:
    """The semantic error rate of the test records `alone`, from two noised sums: at
    most 3 errors and 10 labels a record count. With an interval of 95 % or more for
    the population, which holds the noise.
    """
    ids = setup.split.test
    counts = alone.counts
    errors = _errors(setup, ids, alone)
    labels = _by_unit(
        setup, ids, counts.reference_slots + counts.reference_intents, most=MOST_LABELS
    )
    found = _releases(setup).release(
        "test", {"errors": errors, "labels": labels}, epochs=epochs
    )
    _, declared = held_out_sizes(setup.mechanism.num_records)
    ratio, low, high = ratio_interval(
        found["errors"],
        found["labels"],
        bounds=(errors.bound, labels.bound),
        least=max(1.0, _LEAST_LABELS[setup.corpus.schema.has_intents] * declared),
    )
    return {"ser": ratio, "ser_low": low, "ser_high": high}


def _errors(setup: TrialSetup, ids: Ids, alone: Alone) -> Contributions:
    counts = alone.counts
    errors = np.where(
        alone.failed, MOST_ERRORS, counts.slot_errors + counts.intent_errors
    )
    return _by_unit(setup, ids, errors, most=MOST_ERRORS)


def _by_unit(
    setup: TrialSetup, ids: Ids, values: Integers, *, most: int
) -> Contributions:
    """What each unit adds: a record, or a group by the records that it may contribute,
    chosen as in training.
    """
    values = np.clip(values, 0, most)
    mechanism = setup.mechanism
    if mechanism.unit == "record" or setup.corpus.groups is None or not len(ids):
        bound = most * mechanism.max_records_per_group
        return Contributions(values=values, bound=bound)
    chosen = Population(
        ids,
        groups=setup.corpus.groups[ids],
        text_keys=setup.loader.text_keys(ids),
        max_records_per_group=mechanism.max_records_per_group,
        seed=setup.config.training.seed,
    )
    of_records = values[np.searchsorted(ids, chosen.records)]
    return Contributions(
        values=np.add.reduceat(of_records, chosen.starts),
        bound=most * mechanism.max_records_per_group,
    )


def _releases(setup: TrialSetup) -> HeldOut:
    assert setup.held_out is not None  # of a config that covers all
    return setup.held_out
