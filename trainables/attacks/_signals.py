"""The outputs of a trained model that attacks read: numbers, never text.

One inference pass computes them. The features need no label and have one width for
every label set, so that an attack fitted on one corpus reads the signals of another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainables.config.sections import SplitMode
from trainables.errors import InvalidData, InvalidInput
from trainables.io.files import DAMAGED, write_arrays

if TYPE_CHECKING:
    from scipy import sparse

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]

# Sorted intent probabilities; per-token sorted tag posteriors, averaged over the
# tokens; the least sure token; log p(best path) / T.
FEATURES = (
    "intent_1",
    "intent_2",
    "intent_3",
    "slots_mean_1",
    "slots_mean_2",
    "slots_mean_3",
    "slots_min_1",
    "path",
)
_TOP = 3
# log p and log(1 - p) of a float32 loss are rounding errors closer to 0 than this.
_FLOOR = 1e-7


@dataclass(frozen=True, kw_only=True)
class Signals:
    """One trial's signals on the records of an attack.

    `records` are ids in the corpus, strictly increasing. `member`: whether the trial
    trained on the record. `features` is [n, 8] (see `FEATURES`), probabilities as they
    are. `log_confidence` is log p(x) = -(L_intent + L_slots / T) of the true labels, at
    most 0. `pairs` has the pair's number where the split is `paired` and -1 elsewhere.
    `population` marks records that no trial of the sweep ever trains on (validation,
    common test): attacks compare with them and score none. `corpus` is the fingerprint
    of the corpus, `mode` the split.
    """

    records: Integers
    member: Bools
    features: Floats
    log_confidence: Floats
    pairs: Integers
    population: Bools
    mode: SplitMode
    corpus: str = ""

    def __post_init__(self) -> None:
        n = len(self.records)
        for name in _ARRAYS:
            shape = (n, len(FEATURES)) if name == "features" else (n,)
            if (got := getattr(self, name).shape) != shape:
                raise InvalidInput(
                    f"expected signals.{name} of shape {shape}, got {got}"
                )
        if n and (np.diff(self.records) <= 0).any():
            raise InvalidInput(
                "expected signals.records strictly increasing, got repeats"
            )
        for name in ("features", "log_confidence"):
            bad = int((~np.isfinite(getattr(self, name))).sum())
            if bad:
                raise InvalidInput(
                    f"expected finite signals.{name}, got {bad} that are not"
                )
        if (self.member & self.population).any():
            raise InvalidInput(
                "expected no member in the population that no trial trains on"
            )

    def __len__(self) -> int:
        return len(self.records)

    @property
    def psi(self) -> Floats:
        """log p - log(1 - p) of the confidence: near Gaussian (Carlini et al. 2022)."""
        return logit_of_log(self.log_confidence)

    def take(self, rows: NDArray[np.int64] | Bools) -> Signals:
        """The signals of some rows, in the same order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _ARRAYS})

    @property
    def is_evaluated(self) -> Bools:
        """Rows that an attack is measured on: all but the population."""
        return ~self.population


def logit_of_log(log_p: Floats) -> Floats:
    """log p - log(1 - p) from log p <= 0, finite also where p rounds to 0 or 1.

    >>> round(float(logit_of_log(np.log(np.array(0.9)))), 6)
    2.197225
    """
    bounded = np.clip(log_p, np.log(_FLOOR), -_FLOOR)
    return np.asarray(bounded - np.log(-np.expm1(bounded)))


def features_of(
    *,
    intent_log_probs: Floats,
    token_marginals: Floats,
    lengths: Integers,
    path_log_prob: Floats,
) -> Floats:
    """phi(x), [B, 8]: see `FEATURES`; padded with 0 where there are fewer than 3
    labels.

    `intent_log_probs` [B, K]; `token_marginals` [T, L], the posteriors of all tokens of
    the batch, one record after another; `lengths` [B], each at least 1; `path_log_prob`
    [B]. A record's features depend on that record alone, not on its batch.
    """
    starts = np.r_[0, np.cumsum(lengths)[:-1]]
    tokens = _top(np.asarray(token_marginals, dtype=np.float64))
    # A token's sorted posteriors are summed in its record's own order of tokens.
    mean = np.add.reduceat(tokens, starts, axis=0) / lengths[:, None]
    least = np.minimum.reduceat(tokens[:, 0], starts)
    intents = _top(np.exp(np.asarray(intent_log_probs, dtype=np.float64)))
    path = np.asarray(path_log_prob, dtype=np.float64) / lengths
    return np.column_stack([intents, mean, least, path])


def gather(
    *,
    records: Integers,
    member: Bools,
    mode: SplitMode,
    features: Floats,
    log_confidence: Floats,
    pairs: Integers | None = None,
    population: Bools | None = None,
    corpus: str = "",
) -> Signals:
    """Signals of rows in any order, for passes that compute `features_of` batch by
    batch.

    Features are rounded to 32 bits, as a file stores them, so that a trial that trains
    a shadow model and one that reads its signals get the same figures.
    """
    ids = np.asarray(records, dtype=np.int64)
    order = np.argsort(ids, kind="stable")
    none = np.full(len(ids), -1) if pairs is None else pairs
    outside = np.zeros(len(ids), dtype=np.bool_) if population is None else population
    return Signals(
        records=ids[order],
        member=np.asarray(member, dtype=np.bool_)[order],
        features=np.asarray(features, dtype=np.float32).astype(np.float64)[order],
        # A likelihood above 1 is rounding; path sums in float32 give some.
        log_confidence=np.minimum(np.asarray(log_confidence, dtype=np.float64), 0.0)[
            order
        ],
        pairs=np.asarray(none, dtype=np.int64)[order],
        population=np.asarray(outside, dtype=np.bool_)[order],
        mode=mode,
        corpus=corpus,
    )


_ARRAYS = ("records", "member", "features", "log_confidence", "pairs", "population")


def write_signals(path: Path, signals: Signals) -> None:
    """Write `signals.npz`; it appears whole or not at all. Features are kept in 32
    bits.
    """
    arrays = {name: getattr(signals, name) for name in _ARRAYS}
    arrays["features"] = arrays["features"].astype(
        np.float32
    )  # as `gather` has rounded them
    labels = {name: np.array(getattr(signals, name)) for name in ("mode", "corpus")}
    write_arrays(path, arrays | labels)


def read_signals(path: Path) -> Signals:
    """Read what `write_signals` wrote, without pickle.

    Raises: InvalidData for a file that is missing, damaged or something else.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in _ARRAYS}
            labels = {name: str(stored[name]) for name in ("mode", "corpus")}
        arrays["features"] = arrays["features"].astype(np.float64)
        return Signals(**arrays, **labels)  # type: ignore[arg-type]  # mode is checked by use
    except (*DAMAGED, InvalidInput) as error:
        raise InvalidData(
            f"expected signals of a trial in {path}, got a file that cannot be read"
            f" ({type(error).__name__})"
        ) from None


def _top(probabilities: Floats) -> Floats:
    """The three largest of each row, descending, padded with 0: [n, 3]."""
    width = min(_TOP, probabilities.shape[1])
    top = -np.sort(-probabilities, axis=1)[:, :width]
    return np.pad(top, ((0, 0), (0, _TOP - width)))


def bag_of_words(
    token_ids: NDArray[np.integer], lengths: NDArray[np.integer], *, num_types: int
) -> sparse.csr_matrix:
    """[n, num_types + 1]: whether each token type occurs, then log(1 + length).

    `token_ids` are the tokens of n records one after another, `lengths` [n] how many
    each has.
    """
    from scipy import sparse  # imported by every plan of a space with attacks otherwise

    rows = np.repeat(np.arange(len(lengths)), lengths)
    counts = sparse.coo_matrix(
        (np.ones(len(token_ids)), (rows, token_ids)), shape=(len(lengths), num_types)
    ).tocsr()
    counts.data[:] = 1.0
    size = sparse.csr_matrix(np.log1p(np.asarray(lengths, dtype=np.float64))[:, None])
    return sparse.csr_matrix(sparse.hstack([counts, size]))
