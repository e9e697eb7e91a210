"""MAUVE: how close generated text is to human text in a space of features (Pillutla et al. 2021).

Rows of features are clustered together, and the divergence curve of the two histograms is
integrated. A value depends on the features, the number of texts and the number of clusters: compare
within one setting only. The features here are TF-IDF of characters with a truncated SVD, which need
no model; rows of any other featuriser (a language model's states) go into `of_features`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainables.figures import text_count, text_rate

FIGURES = (
    text_rate(
        name="mauve",
        label="MAUVE",
        better="higher",
        objective=True,
        is_listed=True,
        has_ceiling=True,
    ),
    text_rate(name="mauve_smoothed", label="MAUVE*", better="higher", has_ceiling=True),
    text_count(name="mauve_num_texts", label="texts that MAUVE compared"),
    text_count(name="mauve_num_clusters", label="clusters that MAUVE compared"),
)
FEATURES = "tfidf-char2-5-svd128"
SCALE = 5.0  # of the divergence inside the exponential
_POINTS = 25
_WIDTH = 128
_VARIANCE = 0.9
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Mauve:
    """`value` in (0, 1], `smoothed` the same with half a count added to each cluster (MAUVE*)."""

    value: float
    smoothed: float
    num_texts: int
    num_clusters: int


def features_of_both(
    generated: Sequence[str], human: Sequence[str], *, max_texts: int = 2_000, seed: int = 0
) -> tuple[Floats, Floats]:
    """Rows of equally many texts of both sides, drawn at random, in one space of features."""
    n = min(len(generated), len(human), max_texts)
    rng = np.random.default_rng(seed)
    sides = [[side[i] for i in rng.permutation(len(side))[:n]] for side in (generated, human)]
    rows = text_features([*sides[0], *sides[1]], seed=seed)
    return rows[:n], rows[n:]


def of_features(p: Floats, q: Floats, *, seed: int = 0) -> Mauve:
    """MAUVE of feature rows [n, d] and [m, d], all finite; k = max(2, n / 10) clusters."""
    n = min(len(p), len(q))
    k = max(2, round(n / 10))
    labels = _clusters(np.concatenate([p, q]), k=k, seed=seed)
    counts = [np.bincount(side, minlength=k) for side in (labels[: len(p)], labels[len(p) :])]
    return Mauve(
        value=of_histograms(*counts),
        smoothed=of_histograms(*counts, smoothing=0.5),
        num_texts=n,
        num_clusters=k,
    )


def of_histograms(
    p: Sequence[float] | NDArray[np.int64],
    q: Sequence[float] | NDArray[np.int64],
    *,
    smoothing: float = 0.0,
) -> float:
    """MAUVE of two histograms over the same clusters: the mean area under the divergence curve.

    The curve's points are (exp(-5 KL(Q||R)), exp(-5 KL(P||R))) for mixtures R = wP + (1 - w)Q, and
    the corners (0, 1), (1, 0). Points of equal x are ordered by falling y: without that the area of
    two equal histograms can come out too small.

    >>> of_histograms([1, 1], [1, 1]), round(of_histograms([3, 1], [1, 3]), 6)
    (1.0, 0.559611)
    """
    from scipy.special import rel_entr

    P, Q = (np.asarray(side, dtype=np.float64) + smoothing for side in (p, q))
    P, Q = P / P.sum(), Q / Q.sum()
    weights = np.linspace(1e-6, 1 - 1e-6, _POINTS)
    mixtures = weights[:, None] * P + (1 - weights[:, None]) * Q
    x, y = (np.exp(-SCALE * rel_entr(side, mixtures).sum(axis=1)) for side in (Q, P))
    x, y = np.concatenate([[0.0], x, [1.0]]), np.concatenate([[1.0], y, [0.0]])
    return (_area(x, y) + _area(y, x)) / 2


def text_features(texts: Sequence[str], *, seed: int = 0) -> Floats:
    """Rows of TF-IDF over 2 to 5 characters, reduced to at most 128 columns, [n, d]."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, max_features=50_000
    )
    sparse = vectorizer.fit_transform(text if text.strip() else "." for text in texts)
    width = min(_WIDTH, min(sparse.shape) - 1)
    if width < 1:
        return np.asarray(sparse.toarray(), dtype=np.float64)
    with np.errstate(invalid="ignore"):  # equal texts have no variance to explain
        reduced = TruncatedSVD(n_components=width, random_state=seed).fit_transform(sparse)
    return np.asarray(reduced, dtype=np.float64)


def _clusters(rows: Floats, *, k: int, seed: int) -> NDArray[np.int64]:
    """Cluster of each row: unit length, PCA to 90 % of the variance, k-means."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import normalize

    rows = normalize(rows)
    distinct = len(np.unique(rows, axis=0))
    if distinct == 1:
        return np.zeros(len(rows), dtype=np.int64)
    rows = PCA(n_components=_VARIANCE, random_state=seed).fit_transform(rows)
    k = min(k, distinct)
    found = KMeans(n_clusters=k, n_init=1, max_iter=100, random_state=seed).fit_predict(rows)
    return np.asarray(found, dtype=np.int64)


def _area(x: Floats, y: Floats) -> float:
    order = np.lexsort((-y, x))
    return float(np.trapezoid(y[order], x[order]))
