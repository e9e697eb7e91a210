"""How close generated text is to human text in a space of features: MAUVE (Pillutla et
al. 2021), and precision and recall by nearest neighbours (Kynkäänniemi et al. 2019).

For MAUVE rows of features are clustered together, and the divergence curve of the two
histograms is integrated. A value depends on the features, the number of texts and the
number of clusters: compare within one setting only. `mauve_states` reads states of an
encoder, which depend on the order of words. `ngram_similarity` is the same on TF-IDF of
character n-grams inside words, with a truncated SVD: it sees vocabulary alone, and
stays as it is when the words of every text are shuffled. Earlier code wrote it as
`mauve`, which no trial writes any more.

By neighbours a side's region is the union of balls around its rows, each as wide as the
distance to the row's k-th neighbour on its own side. Precision (plausibility) is the
share of generated rows in the human region; recall (coverage) is the share of human
rows in the generated region. A generator that repeats one good sentence has high
precision and no recall.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from trainables.figures import text_count, text_share

MAUVE = "mauve_states"
NGRAMS = "ngram_similarity"
_NGRAM_LABEL = "similarity of character n-grams"
FIGURES = (
    text_share(name=MAUVE, label="MAUVE", objective=True, is_listed=True),
    text_share(name=f"{MAUVE}_smoothed", label="MAUVE*"),
    text_share(name=NGRAMS, label=_NGRAM_LABEL, objective=True),
    text_share(name=f"{NGRAMS}_smoothed", label=f"{_NGRAM_LABEL}, smoothed"),
    *(
        text_count(name=f"{name}_num_{what}", label=f"{what} that {label} compared")
        for name, label in ((MAUVE, "MAUVE"), (NGRAMS, "n-gram similarity"))
        for what in ("texts", "clusters")
    ),
    # Of trials of earlier code, under their spelling.
    text_share(name="mauve", label=f"{_NGRAM_LABEL} (before)", objective=True),
    text_share(name="mauve_smoothed", label=f"{_NGRAM_LABEL}, smoothed (before)"),
    text_count(name="mauve_num_texts", label="texts that it compared (before)"),
    text_count(name="mauve_num_clusters", label="clusters that it compared (before)"),
    text_share(name="neighbour_precision", label="precision by neighbours"),
    text_share(name="neighbour_recall", label="recall by neighbours"),
)
NEEDED = (
    1_000  # texts of each side: with 300, people and shuffled words may be .27 apart
)
FEATURES = "tfidf-char2-5-svd128"
SCALE = 5.0  # of the divergence inside the exponential
_POINTS = 25
_WIDTH = 128
_VARIANCE = 0.9
_NEIGHBOURS = 3  # the authors' choice
Floats = NDArray[np.float64]


Features = Callable[[Sequence[str]], Floats]  # of texts, a row each


def figures(
    generated: Sequence[str],
    human: Sequence[str],
    *,
    max_texts: int,
    seed: int,
    states: Features | None = None,
) -> dict[str, float | int | None]:
    """Every figure by its name; `mauve_states`, of the features `states`, is None for
    fewer than `NEEDED` texts of a side, `ngram_similarity` for fewer than 10.
    """
    found: dict[str, float | int | None] = {MAUVE: None, NGRAMS: None}
    both = generated, human
    if states is not None:
        found |= of_states(*both, states, max_texts=max_texts, seed=seed)
    if min(map(len, both)) >= 10:
        rows = features_of_both(*both, max_texts=max_texts, seed=seed)
        found |= _named(NGRAMS, mauve(*rows, seed=seed)) | neighbours(*rows)
    return found


def of_states(
    generated: Sequence[str],
    human: Sequence[str],
    states: Features,
    *,
    max_texts: int = 2_000,
    seed: int,
) -> dict[str, float | None]:
    """`mauve_states` and its counts; alone, None, for fewer than `NEEDED` texts."""
    if min(len(generated), len(human), max_texts) < NEEDED:
        return {MAUVE: None}
    rows = features_of_both(
        generated, human, max_texts=max_texts, seed=seed, features=states
    )
    return _named(MAUVE, mauve(*rows, seed=seed))


def _named(name: str, values: dict[str, float]) -> dict[str, float | None]:
    """Values of `mauve` under the name of their features."""
    return {key.replace("mauve", name): value for key, value in values.items()}


def features_of_both(
    generated: Sequence[str],
    human: Sequence[str],
    *,
    max_texts: int = 2_000,
    seed: int = 0,
    features: Features | None = None,
) -> tuple[Floats, Floats]:
    """Rows of equally many texts of both sides, drawn at random, in one space of
    features; None: `text_features`.
    """
    n = min(len(generated), len(human), max_texts)
    rng = np.random.default_rng(seed)
    sides = [
        [side[i] for i in rng.permutation(len(side))[:n]] for side in (generated, human)
    ]
    texts = [*sides[0], *sides[1]]
    rows = text_features(texts, seed=seed) if features is None else features(texts)
    return rows[:n], rows[n:]


def mauve(p: Floats, q: Floats, *, seed: int = 0) -> dict[str, float]:
    """MAUVE of feature rows [n, d] and [m, d], all finite, in (0, 1], by k = max(2, n /
    10) clusters; `mauve_smoothed` with half a count added to each (MAUVE*).
    """
    n = min(len(p), len(q))
    k = max(2, round(n / 10))
    labels = _clusters(np.concatenate([p, q]), k=k, seed=seed)
    counts = [
        np.bincount(side, minlength=k) for side in (labels[: len(p)], labels[len(p) :])
    ]
    return {
        "mauve": of_histograms(*counts),
        "mauve_smoothed": of_histograms(*counts, smoothing=0.5),
        "mauve_num_texts": n,
        "mauve_num_clusters": k,
    }


def of_histograms(
    p: Sequence[float] | NDArray[np.int64],
    q: Sequence[float] | NDArray[np.int64],
    *,
    smoothing: float = 0.0,
) -> float:
    """MAUVE of two histograms over the same clusters: the mean area under the
    divergence curve.

    The curve's points are (exp(-5 KL(Q||R)), exp(-5 KL(P||R))) for mixtures R = wP + (1
    - w)Q, and the corners (0, 1), (1, 0). Points of equal x are ordered by falling y:
    without that the area of two equal histograms can come out too small.

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


def text_features(texts: Sequence[str], *, seed: int) -> Floats:
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
        reduced = TruncatedSVD(n_components=width, random_state=seed).fit_transform(
            sparse
        )
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
    found = KMeans(n_clusters=k, n_init=1, max_iter=100, random_state=seed).fit_predict(
        rows
    )
    return np.asarray(found, dtype=np.int64)


def _area(x: Floats, y: Floats) -> float:
    order = np.lexsort((-y, x))
    return float(np.trapezoid(y[order], x[order]))


def neighbours(generated: Floats, human: Floats) -> dict[str, float]:
    """Precision and recall of feature rows [n, d] and [m, d], compared by their
    direction, more than 3 on each side.

    >>> line = np.column_stack([np.ones(9), np.arange(9.0)])
    >>> neighbours(line, line)
    {'neighbour_precision': 1.0, 'neighbour_recall': 1.0}
    """
    from sklearn.preprocessing import normalize

    ours, theirs = normalize(generated), normalize(human)
    return {
        "neighbour_precision": _inside(ours, theirs),
        "neighbour_recall": _inside(theirs, ours),
    }


def _inside(rows: Floats, region: Floats) -> float:
    """The share of `rows` in a ball around some row of `region`."""
    from sklearn.metrics import pairwise_distances
    from sklearn.neighbors import NearestNeighbors

    # The first neighbour of a row on its own side is the row itself.
    own, _ = (
        NearestNeighbors(n_neighbors=_NEIGHBOURS + 1).fit(region).kneighbors(region)
    )
    radius = own[:, -1]
    # A ball's edge belongs to it, and equal texts lie on it only up to rounding.
    within = pairwise_distances(rows, region) <= radius * (1 + 1e-9) + 1e-9
    return float(within.any(axis=1).mean())
