import math
import statistics

import pytest

from search_spaces import space as spaces
from search_spaces.expansion import branches, domain_of
from sweep.planning import prepare
from sweep.runtime import runner
from sweep.runtime.events import Interrupted
from sweep.search.source import ended_early, observations_of
from sweep.search.suggest import Observation, suggest
from sweep.spending import filter as search_filter
from sweep.spending.ledger import FILE, Ledger
from sweep.store import sweeps as store
from tests.sweep.sweeps import TOY, settings_in, space_in
from tests.sweep.untracked import leave_out_mlflow

LR, Z, C = "training.learning_rate", "privacy.noise_multiplier", "privacy.max_grad_norm"
AXES = {LR: {"range": {"low": 1e-4, "high": 1.0, "log": True}}, C: [0.5, 1.0, 2.0]}


def space_of(strategy="tpe", num_samples=20, **fields):
    search = {
        "strategy": strategy,
        "num_samples": num_samples,
        **fields.pop("search", {}),
    }
    return spaces.parse({"name": "s", "axes": AXES, "search": search, **fields})


def far(values):
    """An objective whose smallest value, 0, is at learning rate 0.01 and C = 1."""
    return abs(math.log10(values[LR]) + 2) + abs(values[C] - 1)


def search_all(space, *, count, refuse=lambda _: False):
    """A whole search on `far`, several objectives all alike."""
    observations = []
    for draw in range(count):
        found = suggest(space, observations, draw=draw)
        refused = refuse(found.values)
        observations.append(
            Observation(
                variant=found.variant.name,
                values=found.values,
                state="refused" if refused else "done",
                objectives=()
                if refused
                else (far(found.values),) * len(space.search.objectives),
                violation=1.0 if refused else 0.0,
            )
        )
    return observations


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder for sweeps."""
    leave_out_mlflow(monkeypatch)
    return tmp_path


def run_search(folder, *, watch=lambda trial_id, progress: None, **fields):
    settings = settings_in(folder)
    search = {"strategy": "tpe", "num_samples": 6, **fields.pop("search", {})}
    space = space_in(folder, **{"axes": AXES, "search": search, **VARIANTS, **fields})
    prepared = prepare.prepare_space(space, settings=settings)
    return runner.start(prepared, settings, function=TOY, watch=watch).folder


VARIANTS = {
    "variants": [
        {"name": "sgd", "baseline": True, "set": {"engine": "sgd"}, "drop_axes": "all"},
        {"name": "edp", "set": {"engine": "edp_sgd"}},
    ]
}


def chosen_trials(folder):
    return [trial for trial in folder.plan().trials if not trial.baseline]


@pytest.mark.parametrize(
    "strategy", ["tpe", pytest.param("gp", marks=pytest.mark.slow)]
)
def test_what_is_known_is_used(strategy):
    """The second half of a search is nearer to the optimum than chance is: over 3 seeds
    the means differ by half of chance's, with margin (fixed seeds: no false alarms).
    """
    late = []
    for seed in range(3):
        observations = search_all(space_of(strategy, search={"seed": seed}), count=20)
        late += [far(one.values) for one in observations[12:]]
    by_chance = [
        far(suggest(space_of(), (), draw=draw, at_random=True).values)
        for draw in range(60)
    ]
    assert statistics.fmean(late) < 0.6 * statistics.fmean(by_chance)


def test_the_sampler_learns_from_what_was_refused():
    def share(observations):
        return statistics.fmean(one.state == "refused" for one in observations)

    observations = []
    for seed in range(3):
        space = space_of("tpe", search={"seed": seed, "num_startup": 8})
        observations += search_all(
            space, count=40, refuse=lambda values: values[C] == 2.0
        )[20:]
    assert share(observations) < 0.2, "a third by chance"


def test_lists_with_an_order_are_searched_in_it():
    epsilons = [{"target_epsilon": 8}, {"target_epsilon": 1}, {"target_epsilon": 3}]
    (branch,) = branches(space_of(axes={Z: epsilons, "model.name": ["clc", "bert"]}))
    ordered, named = branch.domains[Z], branch.domains["model.name"]
    assert [ordered.value(i)["target_epsilon"] for i in range(3)] == [1, 3, 8]
    assert (ordered.ordered, named.ordered) == (True, False)
    params = branch.params({Z: {"target_epsilon": 8}, "model.name": "clc"})
    assert params == {Z: 2, "model.name": 0}


def test_a_proposed_number_has_the_digits_that_matter_and_stays_in_its_range():
    axis = space_of(axes={LR: {"range": {"low": 0.01, "high": 0.123456}}}).axes[LR]
    domain = domain_of(axis)
    assert domain.value(0.05432198) == 0.05432
    assert domain.value(0.123456) == 0.123456


def test_a_search_runs_its_trials_and_never_one_twice(place):
    folder = run_search(place)
    trials = chosen_trials(folder)
    assert len(trials) == 6
    assert len({trial.id for trial in trials}) == 6
    assert {record.status for record in folder.records()} == {"done"}
    best = min(trials[3:], key=lambda trial: trial.values[LR])
    assert best.values[LR] < 1e-2, (
        "the toy's error is proportional to the learning rate"
    )


def test_a_small_space_is_searched_whole_and_ends(place):
    folder = run_search(
        place, axes={C: [0.5, 1.0], Z: [1.0, 2.0]}, search={"num_samples": 50}
    )
    assert len({(t.values[C], t.values[Z]) for t in chosen_trials(folder)}) == 4


def test_a_point_refused_by_the_accountant_is_reported_and_never_runs(place):
    folder = run_search(
        place,
        axes={Z: {"range": {"low": 0.05, "high": 50, "log": True}}},
        budget={"epsilon": 20},
        search={"num_samples": 5},
    )
    records = [record for record in folder.records() if not record.plan.baseline]
    refused = [record for record in records if record.status == "refused"]
    assert len([record for record in records if record.status == "done"]) == 5
    assert refused
    assert all(record.epochs_done == 0 for record in refused)
    assert all("exceeds budget.epsilon=20" in str(record.reason) for record in refused)
    observations = {
        one.state: one.violation for one in observations_of(folder.space(), records)
    }
    assert observations["refused"] > 0
    assert observations["done"] == 0


def test_a_resumed_search_chooses_what_it_would_have_chosen(place):
    whole = run_search(place, name="whole")
    settings = settings_in(place)
    seen = set()

    def stop_in_the_fourth(trial_id, progress):
        seen.add(trial_id)
        if len(seen) == 4 and progress.epochs_done == 2:
            store.open_sweep(settings.home, "cut").request_stop()

    with pytest.raises(Interrupted):
        run_search(place, name="cut", watch=stop_in_the_fourth)
    cut = store.open_sweep(settings.home, "cut")
    assert len(chosen_trials(cut)) < 6
    runner.resume(cut, settings, function=TOY)
    assert [t.values for t in chosen_trials(cut)] == [
        t.values for t in chosen_trials(whole)
    ]
    assert {record.status for record in cut.records()} == {"done"}


def test_repeats_are_one_configuration_with_its_mean(place):
    folder = run_search(place, repeats=2, search={"num_samples": 3})
    records = [record for record in folder.records() if not record.plan.baseline]
    assert len(records) == 6
    observations = observations_of(folder.space(), records)
    assert len(observations) == 3
    first = [float(r.metrics["validation_ser"] or 0) for r in records[:2]]
    assert observations[0].objectives == pytest.approx((statistics.fmean(first),))


@pytest.mark.parametrize(
    ("override", "configurations"), [({}, 1), ({"training.seed": 9}, 3)]
)
def test_a_budget_of_trials_is_used_up_also_where_a_seed_ends_the_repeats(
    place, override, configurations
):
    budget = {"trials": 4}  # the baseline has its seeds, too
    folder = run_search(
        place, repeats=2, override=override, search={"num_samples": 9}, budget=budget
    )
    chosen = {
        record.plan.group for record in folder.records() if not record.plan.baseline
    }
    assert len(chosen) == configurations
    said = f"The search ended after {configurations} of 9 configurations: budget.trials=4 reached."
    assert ended_early(folder) == said


@pytest.mark.parametrize("strategy", ["tpe", "gp", "nsga2"])
def test_trials_without_the_field_of_an_axis_are_observed(place, strategy):
    """`features` has no number of layers, which the other values of `model.name`
    have.
    """
    axes = {
        "model.name": ["clc", "features"],
        "model.num_layers": [1, 2],
        Z: [1.0, 2.0, 3.0],
    }
    search = {"strategy": strategy, "num_samples": 6, "num_startup": 4}
    folder = run_search(place, axes=axes, search=search)
    records = [record for record in folder.records() if not record.plan.baseline]
    without = [
        r.plan.values for r in records if r.plan.fields["model"]["name"] == "features"
    ]
    assert without
    assert all("model.num_layers" not in values for values in without)
    observations = observations_of(folder.space(), records)
    assert [one.state for one in observations] == ["done"] * 6
    assert [one.values for one in observations] == [
        record.plan.values for record in records
    ]


def test_a_total_is_kept_by_a_filter_and_the_sweep_says_so(place):
    folder = run_search(
        place,
        axes={Z: {"range": {"low": 4.0, "high": 50, "log": True}}},
        budget={"total": 8},
        search={"num_samples": 40},
    )
    space, plan = folder.space(), folder.plan()
    ran = {record.plan.id for record in folder.records() if record.status == "done"}
    assert 2 <= len(ran) < 41, "the total, not the number of trials, ends the search"
    assert any(
        "budget.total=8 has no room for it" in str(t.reason) for t in plan.refused
    )
    entries = {
        entry.trial: entry for entry in Ledger(folder.path.parent / FILE).entries()
    }
    releases = [
        entries[trial.id].release for trial in chosen_trials(folder) if trial.id in ran
    ]
    kept = search_filter.stored_filter(folder)
    assert kept == search_filter.filter_of(space, plan.filter_delta)
    total = search_filter.total_of(space, releases, delta=kept.delta, kept=kept)
    assert total.epsilon == 8
    assert total.accountant.startswith("rdp filter")
