"""What a plan whose trials cover every record of the data set must be like, and what
the noise on its validation and test figures costs, from declared values alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from search_spaces.space import SearchSpace
from sweep.planning.accounting import Accounting
from sweep.store.plans import Plan, PlannedTrial
from trainables import formats
from trainables.data.split import held_out_sizes
from trainables.dp.held_out import noise_on_sum
from trainables.dp.mechanism import Mechanism
from trainables.errors import InvalidInput
from trainables.figures import MOST_ERRORS

_FIELD = "privacy.covers=all"


def require_covered(space: SearchSpace, plan: Plan) -> None:
    """Require a plan with trials that cover every record to show and choose by nothing
    else: all its trials do, by one split of each data set, and no later trial depends
    on when an earlier one ended.

    Raises: InvalidInput with the reason.
    """
    trials = [t for t in (*plan.to_run, *plan.probes) if t.is_config]
    covering = [trial for trial in trials if trial.covers_all]
    if not covering:
        return
    search = space.search
    if search.scheduler != "none" or search.is_adaptive or search.is_private_selection:
        how = (
            f"search.scheduler={search.scheduler}"
            if search.scheduler != "none"
            else f"search.strategy={search.strategy}"
        )
        raise InvalidInput(
            f"expected search.strategy grid, random or quasi-random and no scheduler"
            f" with {_FIELD}, got {how}: which trials it runs depends on the order in"
            " which others end, and no epsilon covers that yet"
        )
    for trial in trials:
        if not trial.covers_all:
            raise InvalidInput(
                f"expected every trial of the sweep with {_FIELD}, got"
                f" {trial.variant or trial.id} (engine {trial.engine}) without: its"
                " figures have no noise, and would stand beside those that have; run it"
                " in a sweep of its own, for the curator"
            )
    _require_one_split(covering)


def _require_one_split(trials: Iterable[PlannedTrial]) -> None:
    """Raises: InvalidInput for two splits of one data set."""
    found: dict[str, str] = {}
    for trial in trials:
        name = trial.config.data.split_name
        if found.setdefault(trial.corpus, name) != name:
            raise InvalidInput(
                f"expected one data.split_seed for {trial.corpus} with {_FIELD} (a"
                " record that one split trains on, another may test), got several"
            )


def noise_sentence(plan: Plan, *, account: Accounting) -> str:
    """What the noise on validation and test figures costs, of the trial with the least
    and of that with the most; empty where no trial has it.
    """
    trained = {
        trial.id: account(trial.config).mechanism
        for trial in plan.to_run
        if trial.covers_all
    }
    trained = {name: each for name, each in trained.items() if each.trains}
    if not trained:
        return ""
    spans = zip(*(_spread(each) for each in trained.values()), strict=True)
    validation, test = (
        f"{formats.number(100 * min(each))} to {formats.number(100 * max(each))}"
        if min(each) < max(each)
        else formats.number(100 * max(each))
        for each in spans
    )
    return (
        "Every record of the file is covered. The noise that this takes: errors in 100"
        f" validation records ± {validation} at each evaluation, in 100 test records ±"
        f" {test} (95 %)."
    )


def _spread(mechanism: Mechanism) -> tuple[float, float]:
    """Half of a 95 % interval of the noise on errors of a validation and of a test
    unit.
    """
    validation, test = held_out_sizes(mechanism.num_records)
    bound = MOST_ERRORS * mechanism.max_records_per_group
    once = noise_on_sum(mechanism.held_out_noise, bound=bound)
    at_end = noise_on_sum(
        mechanism.held_out_noise, bound=bound, num_sums=2, num_epochs=mechanism.epochs
    )
    return 1.96 * once / validation, 1.96 * at_end / test
