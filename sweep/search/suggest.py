"""The next configuration of an adaptive search, by Optuna's samplers. Pure: a function
of the space and of the observations. Nothing is kept between two calls, so a resumed
search goes on as before.

TPE: Bergstra et al. 2011, multivariate and grouped (Falkner et al. 2018); GP: Optuna's
expected improvement over a Gaussian process; NSGA-II: Deb et al. 2002.
"""

import statistics
import warnings
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from search_spaces.expansion import VARIANT, Branch, Domain, at_shares, branches
from search_spaces.parts import Variant
from search_spaces.search import Search
from search_spaces.space import SearchSpace
from trainables.dp.seeding import generator, stream_seed
from trainables.errors import InvalidInput, one_line

_CONSTRAINT = "refused"


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The observation of one configuration: `values` of its axes, without those over
    fields that its entries lack, and its state.

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


@dataclass(frozen=True)
class Suggestion:
    """A point of the space."""

    variant: Variant
    values: dict[str, Any] = field(default_factory=dict)


def suggest(
    space: SearchSpace,
    observations: Sequence[Observation],
    *,
    draw: int,
    at_random: bool = False,
) -> Suggestion:
    """The next point after `observations`. `draw` numbers the calls; the same number,
    space and observations give the same point. `at_random`: independent of the
    observations.

    Raises: InvalidInput where the space has no free axis.
    """
    import optuna

    found, search = branches(space), space.search
    if at_random:
        random = generator(search.seed, "suggest", draw)
        return Suggestion(*at_shares(found, lambda name: random.random()))
    if sum(one.state == "done" for one in observations) < num_startup(search):
        return _spread(search, found, draw)
    with quietly():
        seed = stream_seed(search.seed, "suggest", draw) % 2**31
        sampler = search.entry.sampler(seed=seed, startup=num_startup(search))
        directions = ["minimize"] * len(search.objectives)
        study = optuna.create_study(directions=directions, sampler=sampler)
        replays = search.entry.REPLAYS
        if not replays:  # it would only take time, since all values are given
            study.sampler = optuna.samplers.RandomSampler(seed=seed)
        by_name = {branch.variant.name: branch for branch in found}
        _replay(study, observations, by_name, whole=replays)
        study.sampler = sampler
        return _ask(study.ask(), by_name)


def require_sampler(search: Search) -> None:
    """Raises: InvalidInput where a library of an adaptive strategy is not installed."""
    try:
        with quietly():
            search.entry.sampler(seed=0, startup=num_startup(search))
    except ImportError as error:
        raise InvalidInput(
            f"search.strategy={search.strategy} needs a library that is not installed:"
            f" {one_line(str(error), characters=200)}"
        ) from None


def num_startup(search: Search) -> int:
    """Number of configurations spread evenly over the space before the sampler's model
    is used.
    """
    wanted = search.num_samples or 1
    return search.num_startup or min(10, max(3, wanted // 3))


def _spread(search: Search, found: tuple[Branch, ...], draw: int) -> Suggestion:
    """Point number `draw` of Latin hypercubes (McKay et al. 1979), one after another:
    of the first points each is in another part of every axis, so that few of them cover
    more than random ones.
    """
    size = num_startup(search)

    def share(name: str) -> float:
        random = generator(search.seed, "search", "start", name, draw // size)
        return float(
            (random.permutation(size)[draw % size] + random.random(size)[0]) / size
        )

    return Suggestion(*at_shares(found, share))


def _replay(
    study: Any,
    observations: Sequence[Observation],
    by_name: dict[str, Branch],
    *,
    whole: bool,
) -> None:
    """Bring the study into the state after suggesting all observations. `whole`: the
    sampler also proposes values of the axes that an observation lacks.
    """
    import optuna

    done = [one.objectives for one in observations if one.state == "done"]
    # Placeholders of a refused configuration.
    medians = [statistics.median_high(column) for column in zip(*done, strict=True)]
    dummy = medians or [1.0] * len(study.directions)
    for one in observations:
        study.enqueue_trial(
            {VARIANT: one.variant, **by_name[one.variant].params(one.values)}
        )
        trial = study.ask()
        _ask(trial, by_name, of=None if whole else one.values)
        objectives = {"done": [*one.objectives], "refused": dummy}.get(one.state)
        if objectives is not None:
            violation = one.violation if one.state == "refused" else -1.0
            trial.set_constraint(_CONSTRAINT, violation)
            study.tell(trial, objectives)
        elif one.state == "failed":
            study.tell(trial, state=optuna.trial.TrialState.FAIL)


def _ask(
    trial: Any, by_name: dict[str, Branch], *, of: Container[str] | None = None
) -> Suggestion:
    """What a trial proposes; `of`: for these axes alone."""
    chosen = by_name[trial.suggest_categorical(VARIANT, list(by_name))]
    values = {
        path: domain.value(_suggest(trial, chosen.name_of(path), domain))
        for path, domain in chosen.domains.items()
        if of is None or path in of
    }
    return Suggestion(variant=chosen.variant, values=values)


def _suggest(trial: Any, name: str, domain: Domain) -> Any:
    """The parameter of an axis that a trial proposes."""
    spread, places = domain.range, range(len(domain.values))
    if spread is None and domain.ordered:
        return trial.suggest_int(name, 0, places[-1])
    if spread is None:
        return trial.suggest_categorical(name, list(places))
    if spread.integer:
        return trial.suggest_int(name, *map(int, spread.ends), log=spread.log)
    return trial.suggest_float(name, spread.low, spread.high, log=spread.log)


@contextmanager
def quietly() -> Iterator[None]:
    """A context without Optuna's log and its warnings about experimental features."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", category=optuna.exceptions.ExperimentalWarning
            )
            warnings.simplefilter("ignore", category=UserWarning)
            # `gamma` goes in Optuna 6, which pyproject.toml excludes; a subclass must
            # do it then.
            warnings.simplefilter("ignore", category=FutureWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
