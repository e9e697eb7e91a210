from trainables.metrics import count_frames, summarize
from trainables.metrics._score import LABELS


def score(
    references, hypotheses, *, labels=LABELS, bootstrap_samples=1_000, seed=0, **how
):
    """The metrics of the frames' counts, which `how` says how to take."""
    counts = count_frames(references, hypotheses, **how)
    return summarize(
        counts, labels=labels, bootstrap_samples=bootstrap_samples, seed=seed
    )
