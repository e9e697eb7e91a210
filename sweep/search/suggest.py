"""The next configuration of an adaptive search, by Optuna's samplers. Pure: a function of the space
and of the observations. Nothing is kept between two calls, so a resumed search goes on as before.

TPE: Bergstra et al. 2011, multivariate and grouped (Falkner et al. 2018); GP: Optuna's expected
improvement over a Gaussian process; NSGA-II: Deb et al. 2002.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from search_spaces.expansion import Branch, Domain, branches
from search_spaces.parts import Variant
from search_spaces.search import STRATEGIES, Search
from search_spaces.space import SearchSpace
from trainables import catalogue
from trainables.seeding import generator, stream_seed

_VARIANT = "variant"
_CONSTRAINT = "refused"


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The observation of one configuration: `values` of its axes, without those over fields that
    its entries lack, and its state.

    done     `objectives` has a number for each objective of the search, smaller is better
    refused  refused before it ran, `violation` > 0 is the excess over the limit
    running  chosen and not ended
    failed   ended without an objective
    """

    variant: str
    values: dict[str, Any]
    state: Literal["done", "refused", "running", "failed"]
    objectives: tuple[float, ...] = ()
    violation: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A point of the space."""

    variant: Variant
    values: dict[str, Any] = field(default_factory=dict)


def suggest(
    space: SearchSpace, observations: Sequence[Observation], *, draw: int, at_random: bool = False
) -> Suggestion:
    """The next point after `observations`. `draw` numbers the calls; the same number, space and
    observations give the same point. `at_random`: independent of the observations.

    Raises: InvalidInput where the space has no free axis.
    """
    import optuna

    found = branches(space)
    strategy = catalogue.entry(STRATEGIES, space.search.strategy, kind="adaptive")
    with quietly():
        seed = stream_seed(space.search.seed, "suggest", draw) % 2**31
        num_done = sum(one.state == "done" for one in observations)
        if not at_random and num_done < num_startup(space.search):
            return _spread(space.search, found, draw)
        if at_random:
            sampler: Any = optuna.samplers.RandomSampler(seed=seed)
        else:
            sampler = strategy.sampler(seed=seed, startup=num_startup(space.search))
        study = optuna.create_study(
            directions=["minimize"] * len(space.search.objectives), sampler=sampler
        )
        by_name = {branch.variant.name: branch for branch in found}
        _replay(study, observations, by_name, found, replay=strategy.REPLAYS)
        return _ask(study.ask(), found)


def num_startup(search: Search) -> int:
    """Number of configurations spread evenly over the space before the sampler's model is used."""
    wanted = search.num_samples or 1
    return search.num_startup or min(10, max(3, wanted // 3))


def _spread(search: Search, found: tuple[Branch, ...], draw: int) -> Suggestion:
    """Point number `draw` of Latin hypercubes (McKay et al. 1979), one after another: of the first
    points each is in another part of every axis, so that few of them cover more than random ones.
    """
    size = num_startup(search)
    names = sorted({b.name_of(path) for b in found for path in b.domains})
    shares = {}
    for name in (_VARIANT, *names):
        random = generator(search.seed, "search", "start", name, draw // size)
        shares[name] = (random.permutation(size)[draw % size] + random.random(size)[0]) / size
    branch = found[int(shares[_VARIANT] * len(found))]
    values = {p: d.at(shares[branch.name_of(p)]) for p, d in branch.domains.items()}
    return Suggestion(variant=branch.variant, values=values)


def _replay(
    study: Any,
    observations: Sequence[Observation],
    by_name: dict[str, Branch],
    found: tuple[Branch, ...],
    *,
    replay: bool,
) -> None:
    """Bring the study into the state after suggesting all observations.

    `replay` calls the sampler for each in turn (NSGA-II counts its generations in these calls).
    """
    import optuna

    dummy = _dummy(observations, count=len(study.directions))
    for one in observations:
        branch = by_name.get(one.variant)
        params = None if branch is None else branch.params(one.values)
        if branch is None or params is None:
            continue  # of a space that was changed since
        named: dict[str, float | str] = {**params}
        if len(found) > 1:
            named[_VARIANT] = one.variant
        objectives = {"done": one.objectives, "refused": dummy}.get(one.state)
        violation = one.violation if one.state == "refused" else -1.0
        if replay:
            study.enqueue_trial(named)
            trial = study.ask()
            _ask(trial, found)
            if objectives is not None:
                trial.set_constraint(_CONSTRAINT, violation)
                study.tell(trial, list(objectives))
            elif one.state == "failed":
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        states = optuna.trial.TrialState
        unended = states.RUNNING if one.state == "running" else states.FAIL
        distributions = {branch.name_of(p): _distribution(branch.domains[p]) for p in one.values}
        if len(found) > 1:
            names = [other.variant.name for other in found]
            distributions[_VARIANT] = optuna.distributions.CategoricalDistribution(names)
        study.add_trial(
            optuna.trial.create_trial(
                state=unended if objectives is None else states.COMPLETE,
                values=None if objectives is None else list(objectives),
                params=named,
                distributions=distributions,
                constraints=None if objectives is None else {_CONSTRAINT: violation},
            )
        )


def _dummy(observations: Sequence[Observation], *, count: int) -> tuple[float, ...]:
    """Placeholder objectives of a refused configuration: the medians."""
    done = [one.objectives for one in observations if one.state == "done"]
    if not done:
        return (1.0,) * count
    return tuple(sorted(column)[len(column) // 2] for column in zip(*done, strict=True))


def _ask(trial: Any, found: tuple[Branch, ...]) -> Suggestion:
    chosen = found[0]
    if len(found) > 1:
        name = trial.suggest_categorical(_VARIANT, [branch.variant.name for branch in found])
        chosen = next(branch for branch in found if branch.variant.name == name)
    values = {
        path: domain.value(_suggest(trial, chosen.name_of(path), domain))
        for path, domain in chosen.domains.items()
    }
    return Suggestion(variant=chosen.variant, values=values)


def _suggest(trial: Any, name: str, domain: Domain) -> float | int:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    spread = _distribution(domain)
    if isinstance(spread, CategoricalDistribution):
        chosen: int = trial.suggest_categorical(name, spread.choices)
        return chosen
    suggest = trial.suggest_int if isinstance(spread, IntDistribution) else trial.suggest_float
    found: float | int = suggest(name, spread.low, spread.high, log=spread.log)
    return found


def _distribution(domain: Domain) -> Any:
    from optuna import distributions

    spread = domain.range
    if spread is None and domain.ordered:
        return distributions.IntDistribution(0, len(domain.values) - 1)
    if spread is None:
        return distributions.CategoricalDistribution(list(range(len(domain.values))))
    if spread.integer:
        return distributions.IntDistribution(*map(int, spread.ends), log=spread.log)
    return distributions.FloatDistribution(spread.low, spread.high, log=spread.log)


@contextmanager
def quietly() -> Iterator[None]:
    """A context without Optuna's log and its warnings about experimental features."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", category=optuna.exceptions.ExperimentalWarning)
            warnings.simplefilter("ignore", category=UserWarning)
            # `gamma` goes in Optuna 6, which pyproject.toml excludes; a subclass must do it then.
            warnings.simplefilter("ignore", category=FutureWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
