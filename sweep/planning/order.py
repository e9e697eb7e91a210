"""The order in which trials that run at the same time begin."""

from collections.abc import Sequence

from sweep.store.plans import PlannedTrial


def longest_first(trials: Sequence[PlannedTrial]) -> list[PlannedTrial]:
    """Trials by falling work, equal ones in their order, so that none begins alone at
    the end (Graham 1969).

    Work is counted in passes over the records (a step of a few records counts as one),
    by the model's cost of a pass. Computing features is part of the first trial of a
    model; the others, which would wait for them, begin later.
    """
    read: set[tuple[str, str]] = set()
    work = {}
    for trial in trials:
        training, model = trial.config.training, trial.config.model
        work[trial.id] = (training.steps or training.epochs) * model.pass_cost
        if (features := (trial.corpus, repr(model))) not in read:
            read.add(features)
            work[trial.id] += model.encoding_cost
    return sorted(trials, key=lambda trial: work[trial.id], reverse=True)
