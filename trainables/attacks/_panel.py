"""All figures of all attacks that a trial allows, by name; and those of a whole sweep
at once.

`mia_<attack>_<figure>`; `epsilon_lower_bound` is certified (one run);
`epsilon_estimate_fdp`, `_gdp` and `_cp` are estimates without a certificate. All of
them are for the curator only.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trainables import catalogue
from trainables.attacks import _estimates, one_run
from trainables.attacks._headline import strongest
from trainables.attacks._knowledge import (
    Knowledge,
    refuse_unless_allowed,
    valid_attacks,
)
from trainables.attacks._signals import Bools, Floats, Signals
from trainables.attacks.quantile import FEWEST
from trainables.config.sections import RANDOM_SPLITS
from trainables.dp.mechanism import Sampling
from trainables.dp.seeding import generator
from trainables.errors import InvalidInput
from trainables.metrics import membership


def refuse_dependent_masks(trials: Sequence[Signals]) -> None:
    """Raises: InvalidInput where the trials' masks are not independent and fair.

    Two trials with one mask, or a design that gives every record the same number of
    trials, would reveal a target's membership through the others'. Refused are a
    correlation of two masks beyond 6 standard errors, and a variance of a record's
    number of trials outside 1/2 to 2 of a binomial's. Independent masks are refused
    with probability below 1e-4. A record of a trial's population has no random
    membership in it, and trials of one `data.split_seed` have the same population.
    """
    first = trials[0]
    rows = first.is_evaluated
    if first.mode == "paired":  # the other of a pair repeats the membership
        rows = rows & np.isin(
            np.arange(len(first)), one_run.pair_rows(np.where(rows, first.pairs, -1))[0]
        )
    masks = np.stack(
        [np.where(trial.population, 0.0, trial.member - 0.5)[rows] for trial in trials]
    ).astype(np.float32)
    n = masks.shape[1]
    correlation = 4 * (masks @ masks.T) / n
    np.fill_diagonal(correlation, 0.0)
    worst = float(np.abs(correlation).max())
    if worst > 6 / np.sqrt(n):
        raise InvalidInput(
            "expected an independent membership mask for each trial, got two of"
            f" correlation {worst:.3f}"
        )
    spread = float(masks.sum(axis=0).var() / np.square(masks).sum(axis=0).mean())
    if n >= 500 and not 0.5 < spread < 2:
        raise InvalidInput(
            "expected independent membership masks, got a number of trials a record"
            f" whose variance is {spread:.2f} of that of independent memberships"
        )


def panel(
    target: Signals,
    scores: Mapping[str, Floats],
    *,
    delta: float,
    sampling: Sampling = "shuffle",
    unit: str = "record",
    num_trials: int = 1,
) -> dict[str, float]:
    """Figures of one trial's attacks, from their `scores` of records [n].

    `delta` is that of the claimed epsilon, `unit` what it protects. `num_trials`: how
    many trials of the sweep are audited; it divides the error of the certified bound.
    There is a bound only where the mechanism has an epsilon that is comparable with it.
    """
    rows = evaluation_rows(target)
    member = target.member[rows]
    result: dict[str, float] = {}
    for name, found in scores.items():
        if name == "one_run":
            if one_run.comparable(target.mode, sampling, unit=unit):
                result |= one_run.audit(
                    found, target, delta=delta, num_trials=num_trials
                )
            continue
        figures = membership.figures(found[rows], member)
        result |= {f"mia_{name}_{figure}": value for figure, value in figures.items()}
    best = strongest(result)
    if best is not None:
        oriented = -scores[best.attack] if best.inverted else scores[best.attack]
        result |= estimates(oriented[rows], member, delta=delta)
    return result


def record_scores(
    target: Signals, knowledge: Knowledge, *, attacks: Collection[str]
) -> dict[str, Floats]:
    """The scores of each of `attacks` on every record of the target: [n] by name.

    Raises: InvalidInput for an attack that the split does not allow, or that lacks what
    it needs.
    """
    for name in attacks:
        refuse_unless_allowed(name, target.mode)
        if (
            missing := catalogue.entry("attacks", name).NEEDS
            - {"coins"}
            - knowledge.parts
        ):
            raise InvalidInput(
                f"expected {', '.join(sorted(missing))} for the attack {name}, got none"
            )
    return {
        name: np.asarray(
            catalogue.entry("attacks", name).scores(target, knowledge), dtype=np.float64
        )
        for name in sorted(attacks)
    }


def sweep_scores(trials: Sequence[Signals]) -> list[dict[str, Floats]]:
    """For each trial the record scores of every attack that uses all the others, and of
    the one-run audit: linear in trials times records.

    Raises: InvalidInput for fewer than two trials, other records, or masks that are not
    independent memberships (other trials' masks would then tell the target's).
    """
    every = {
        name: catalogue.entry("attacks", name) for name in catalogue.names("attacks")
    }
    names = [name for name, entry in every.items() if "references" in entry.NEEDS]
    for name in names:
        refuse_unless_allowed(name, trials[0].mode)
    refuse_dependent_masks(trials)
    found = {name: every[name].all_scores(trials) for name in names}
    found["one_run"] = one_run.all_scores(trials)
    return [
        {name: values[place] for name, values in found.items()}
        for place in range(len(trials))
    ]


def estimates(scores: Floats, member: Bools, *, delta: float) -> dict[str, float]:
    """`epsilon_estimate_gdp` and `epsilon_estimate_cp` of one attack's scores; no
    certificates.

    Raises: InvalidInput unless 0 <= delta < 1.
    """
    _estimates.require_delta(delta)
    area = membership.auc(scores, member).value
    return {
        "epsilon_estimate_gdp": _estimates.gdp(area, delta=delta),
        "epsilon_estimate_cp": _estimates.clopper_pearson_of_scores(
            scores, member, delta=delta
        ),
    }


def possible(
    target: Signals, knowledge: Knowledge, *, sampling: Sampling, unit: str = "record"
) -> tuple[str, ...]:
    """Attacks that the target's split and unit allow and that have what they need,
    sorted.
    """
    names = []
    for name in sorted(valid_attacks(target.mode)):
        enough = knowledge.parts >= catalogue.entry("attacks", name).NEEDS - {"coins"}
        if name == "one_run":
            enough = one_run.comparable(target.mode, sampling, unit=unit)
        if name == "quantile":
            enough = enough and int(target.population.sum()) >= FEWEST
        if enough:
            names.append(name)
    return tuple(names)


def evaluation_rows(target: Signals) -> NDArray[np.int64]:
    """Rows that figures are measured on: in a fixed split as many members as
    non-members, drawn without replacement; with random membership all evaluated rows,
    as it fell.
    """
    evaluated = np.flatnonzero(target.is_evaluated)
    if target.mode in RANDOM_SPLITS:
        return evaluated
    rng = generator(0, "evaluation", "rows")
    sides = [evaluated[target.member[evaluated] == side] for side in (True, False)]
    few = min(len(side) for side in sides)
    return np.sort(np.concatenate([rng.permutation(side)[:few] for side in sides]))
