"""A search that starts from what earlier sweeps have released."""

import pytest

from sweep.planning import prepare
from sweep.runtime import jobs
from sweep.search.source import known_points
from sweep.store import data_sets
from tests.refusals import refused
from tests.sweep.sweeps import settings_in, space_in
from tests.sweep.untracked import run_untracked

NOISE, RATE = "privacy.noise_multiplier", "training.learning_rate"
ONE = {"engine": "edp_sgd"}
RATES = {"range": {"low": 0.001, "high": 1.0, "log": True}}
SEARCH = {"strategy": "tpe", "num_samples": 2, "num_startup": 2}


def run(place, name, **fields):
    return run_untracked(place, name=name, **{"variants": [], "base": ONE, **fields})


def search(place, *sources, **fields):
    given = {"axes": {NOISE: [4.0, 5.0, 6.0], RATE: RATES}, "search": SEARCH, **fields}
    given["search"] = {**given["search"], "start_from": list(sources)}
    return {"name": "search", "variants": [], "base": ONE, **given}


def plan_of(place, *sources, **fields):
    given = {"base": ONE, **search(place, *sources, **fields)}
    return prepare.prepare_space(space_in(place, **given), settings=settings_in(place))


def grid(place, name="known", noises=(4.0, 9.0), **fields):
    return run(place, name, axes={NOISE: list(noises), RATE: [0.01, 0.5]}, **fields)


def test_finished_trials_that_are_points_of_the_space_are_its_first_observations(
    tmp_path, monkeypatch
):
    """By their configs, whatever the axes of their own space; the sampler's model is
    used from the first point on, and no known point is repeated.
    """
    known = grid(tmp_path)
    seen = []
    real = jobs.suggest

    def suggest(space, observations, **given):
        seen.append(list(observations))
        return real(space, observations, **given)

    monkeypatch.setattr(jobs, "suggest", suggest)
    made = run_untracked(tmp_path, **search(tmp_path, "known"))
    expected = {
        (r.plan.values[NOISE], r.plan.values[RATE]): r.metrics["validation_ser"]
        for r in known.records()
        if r.plan.values[NOISE] == 4.0
    }
    first = {(o.values[NOISE], o.values[RATE]): o.objectives[0] for o in seen[0]}
    assert first == expected
    assert {o.state for o in seen[0]} == {"done"}
    assert [each.sweep for each in known_points(made.about())] == [
        known.ledger_name
    ] * 2
    chosen = {(t.values[NOISE], t.values[RATE]) for t in made.plan().trials}
    assert len(chosen) == 2
    assert not chosen & set(expected)
    known.delete()  # the search keeps what it started from
    assert len(known_points(made.about())) == 2


def test_no_known_point_is_run_again(tmp_path):
    """Of four points two are known: the search chooses the two others."""
    grid(tmp_path, noises=(4.0,))
    axes = {NOISE: [4.0, 5.0], RATE: [0.01, 0.5]}
    made = run_untracked(tmp_path, **search(tmp_path, "known", axes=axes))
    chosen = {(t.values[NOISE], t.values[RATE]) for t in made.plan().trials}
    assert chosen == {(5.0, 0.01), (5.0, 0.5)}


def test_the_observation_is_the_mean_over_seeds(tmp_path):
    known = grid(tmp_path, noises=(4.0,), repeats=2)
    found = {p.values[RATE]: p.objectives for p in plan_of(tmp_path, "known").known}
    for rate, (value,) in found.items():
        figures = [
            r.metrics["validation_ser"]
            for r in known.records()
            if r.plan.values[RATE] == rate
        ]
        assert value == pytest.approx(sum(figures) / 2)
    assert len(found) == 2


def test_what_a_search_does_not_start_from(tmp_path):
    law = {"law": "geometric", "mean": 2}
    picked = {"strategy": "private_selection", "num_trials": law}
    run(tmp_path, "picked", axes={NOISE: [4.0, 4.5]}, search=picked)
    with refused("picked, a private selection"):
        plan_of(tmp_path, "picked")
    with refused("no sweep named none"):
        plan_of(tmp_path, "none")
    grid(tmp_path, "far", noises=(9.0,))
    with refused("far that are points of the space.*got none of 2"):
        plan_of(tmp_path, "far")
    longer = {"epochs": 4, "expected_batch_size": 30, "num_workers": 2}
    grid(tmp_path, "longer", noises=(4.0,), base={**ONE, "training": longer})
    with refused("their other fields must be those of the base"):
        plan_of(tmp_path, "longer")
    with refused("with seconds, got none"):
        plan_of(tmp_path, "far", search={**SEARCH, "objectives": ["seconds"]})
    with refused(r"with strategy gp, nsga2, tpe, got grid"):
        plan_of(tmp_path, "far", search={"strategy": "grid"})
    run_untracked(tmp_path, **search(tmp_path))
    both = {**SEARCH, "objectives": ["validation_ser", "epsilon"]}
    with refused("a search by validation_ser, epsilon, got search"):
        plan_of(tmp_path, "search", name="next", search=both)


def test_another_corpus_or_other_records_are_refused(tmp_path):
    grid(tmp_path)
    here, there = tmp_path / "mine.jsonl", tmp_path / "b.jsonl"
    there.write_text(here.read_text())
    data = {**space_in(tmp_path).base["data"], "path": str(there)}
    with refused("expected a sweep on json_lines .*b.jsonl, got known on"):
        plan_of(tmp_path, "known", base={**ONE, "data": data})
    here.write_text(here.read_text().replace("person7", "somebody"))
    data_sets.open_data.cache_clear()  # as in a process of its own
    with refused("known, which was trained on others"):
        plan_of(tmp_path, "known")
