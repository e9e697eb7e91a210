"""What a report draws of trials beside their table: learning curves, ROCs, the epsilon
spent over time, and errors by label. They read what trials and ledger have stored.
"""

import math
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dashboards.results import Curve, LabelErrors, Roc, Spending
from sweep.results import select
from sweep.results.leakage import SIGNALS
from sweep.settings import Settings
from sweep.spending.ledger import FILE, Entry, Ledger, charge_key
from sweep.store import data_sets
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables import attacks, saved_predictions
from trainables.attacks import Strongest, audited, strongest
from trainables.cards.card import PrivacyCard
from trainables.dp.accounting.composition import Account
from trainables.dp.accounting.privacy_semantics import largest_roc, upper_area
from trainables.errors import InvalidData, InvalidInput, StorageFailed
from trainables.figures import EPSILON, RELEASED_VALIDATION, VALIDATION
from trainables.metrics import membership, slot_f1

_LEAST_RATE = 1e-3  # false alarms at the left edge of a ROC
_CORNERS = 90  # of a drawn ROC
_CHARGES = 40  # at which the epsilon spent is composed


def learning_curves(
    folder: SweepFolder, records: Sequence[TrialRecord], *, public: bool
) -> tuple[Curve, ...]:
    """The headline figure on validation records after each epoch, of every trial that
    has it.
    """
    raw = f"{VALIDATION}{select.headline(records)}"
    found = []
    for record in records:
        name = RELEASED_VALIDATION if record.plan.covers_all else raw
        if public and not record.plan.may_publish(name):
            continue
        points = tuple(
            (float(row["epochs_done"]), value)
            for row in folder.epochs(record.plan.id)
            if (value := row["metrics"].get(name)) is not None and np.isfinite(value)
        )
        if points:
            found.append(Curve(trial=record.plan.id, points=points))
    return tuple(found)


def roc(
    folder: SweepFolder,
    answer: TrialRecord,
    baseline: TrialRecord | None,
    card: PrivacyCard | None,
) -> Roc:
    """The ROC of the answer's strongest attack on the answer and on its baseline, and
    the largest that the `card` allows; the latter is left out where the attack tests
    another relation than the card's epsilon.
    """
    worst = strongest(answer.metrics)
    if worst is None:
        return Roc()
    sides = [answer] if baseline is None else [answer, baseline]
    measured = (_measured(folder, record, worst) for record in sides)
    found = Roc(measured=tuple(filter(None, measured)), attack=worst.attack)
    is_claimed = audited(answer.plan.config.data.split) == EPSILON
    if not is_claimed or card is None or card.delta is None or card.epsilon == math.inf:
        return found
    allowed = partial(
        largest_roc,
        epsilon=card.epsilon,
        delta=card.delta,
        tprs={0.01: card.max_tpr_1pct, 0.001: card.max_tpr_01pct},
        advantage=1.0 if card.max_advantage is None else card.max_advantage,
    )
    rates = np.geomspace(_LEAST_RATE, 1.0, _CORNERS)
    return replace(
        found,
        allows=tuple(zip(rates.tolist(), allowed(rates).tolist(), strict=True)),
        allowed_auc=upper_area(allowed),
    )


def _measured(
    folder: SweepFolder, record: TrialRecord, worst: Strongest
) -> Curve | None:
    """The ROC of an attack on a trial; None without its scores."""
    place = folder.trial_folder(record.plan.id)
    with suppress(InvalidData, InvalidInput, KeyError):
        signals = attacks.read_signals(place / SIGNALS)
        row = signals.is_evaluated
        scores = saved_predictions.read_scores(place)[worst.attack][row]
        sign = -1.0 if worst.inverted else 1.0
        curve = membership.roc(sign * scores, signals.member[row])
        points = _thinned(curve.fpr, curve.tpr)
        return Curve(trial=record.plan.id, points=points)
    return None


def _thinned(
    fpr: NDArray[np.float64], tpr: NDArray[np.float64]
) -> tuple[tuple[float, float], ...]:
    """The corners of a step ROC that can be told apart on a log axis: the true-positive
    rate at the largest false-positive rate that is at most each drawn one.
    """
    drawn = np.geomspace(_LEAST_RATE, 1.0, _CORNERS)
    at = np.searchsorted(fpr, drawn * (1 + 1e-12), side="right") - 1
    return tuple(zip(drawn.tolist(), tpr[at].tolist(), strict=True))


def spending(folder: SweepFolder, records: Sequence[TrialRecord]) -> Spending:
    """The epsilon that all sweeps have spent on the data of `records`, after each
    charge, and the limit that the sweep was started with.
    """
    ledger = Ledger(folder.path.parent / FILE)
    ids = {record.plan.id for record in records}
    own = [e for e in ledger.of_sweep(folder.ledger_name) if e.trial in ids or not ids]
    names = {ledger.key.name_of(entry.dataset) for entry in own}
    names |= {other for name in names for other in ledger.key.overlaps(name)}
    entries = [
        entry
        for entry in ledger.entries()
        if not entry.is_exempt and ledger.key.name_of(entry.dataset) in names
    ]
    of_sweep, of_data = folder.space().budget.total, folder.budget_total
    limit = of_sweep if of_data is None else of_data
    if not entries:
        return Spending(limit=limit, of_data=of_data is not None)
    delta = min(entry.delta for entry in entries)
    return Spending(
        points=tuple(_course(entries, delta=delta)),
        limit=limit,
        of_data=of_data is not None,
        delta=delta,
    )


def _course(entries: Sequence[Entry], *, delta: float) -> list[tuple[float, float]]:
    """The composition after some of the charges, the last one among them."""
    account, furthest = Account(), dict[Hashable, int]()
    last, found = len(entries) - 1, list[tuple[float, float]]()
    steps = {last - round(n * last / _CHARGES) for n in range(_CHARGES + 1)}
    for number, entry in enumerate(entries):
        key = charge_key(entry)
        if furthest.get(key, 0) < entry.epochs:
            furthest[key] = entry.epochs
            account.put(key, entry.release, delta=entry.delta)
        if number in steps and entry.at:
            found.append((entry.at, account.total(delta=delta).epsilon))
    return found


def label_errors(
    folder: SweepFolder, records: Sequence[TrialRecord], settings: Settings
) -> tuple[LabelErrors, ...]:
    """The errors of trials on the test records of each intent, the most common first;
    none where the data or the counts of the trials are not at hand. For the curator.
    """
    with suppress(InvalidData, InvalidInput, StorageFailed, OSError):
        return _label_errors(folder, records, settings)
    return ()


def _label_errors(
    folder: SweepFolder, records: Sequence[TrialRecord], settings: Settings
) -> tuple[LabelErrors, ...]:
    if not records or records[0].plan.task != "nlu":
        return ()
    data = records[0].plan.config.data
    if not data_sets.is_available(data, settings):
        return ()
    corpus = data_sets.open_data(data, settings)
    if not corpus.schema.has_intents:
        return ()
    by_label: dict[str, dict[str, tuple[float, float | None]]] = {}
    numbers: dict[str, int] = {}
    for record in records:
        ids, counts = saved_predictions.read_counts(folder.trial_folder(record.plan.id))
        intents = np.array(corpus.intent_names(ids), dtype=object)
        for label in dict.fromkeys(intents.tolist()):
            rows = intents == label
            numbers[label] = int(rows.sum())
            part = saved_predictions.rows_of(counts, rows).total()
            slots = int(part.reference_slots + part.hypothesis_slots)
            by_label.setdefault(label, {})[record.plan.id] = (
                float(part.intent_errors / part.utterances),
                float(slot_f1.value(part)) if slots else None,
            )
    ordered = sorted(numbers, key=lambda label: (-numbers[label], label))
    return tuple(
        LabelErrors(label=label, num_records=numbers[label], figures=by_label[label])
        for label in ordered
    )
