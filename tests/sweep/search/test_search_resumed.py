import pytest

from sweep.planning import prepare
from sweep.runtime import driver, runner
from tests.sweep.sweeps import TOY, settings_in, space_in
from tests.sweep.untracked import leave_out_mlflow

GANG = {"executor": "gang", "workers": 1, "slots": 1, "gpus_per_worker": 0}


def finish_search(folder, *, num_samples, **resources):
    """A search of a space of two points that ran in this process, and would go on with
    Ray.
    """
    settings = settings_in(folder)
    space = space_in(
        folder,
        axes={"privacy.noise_multiplier": [0.5, 1.0]},
        search={"strategy": "tpe", "num_samples": num_samples},
        variants=[{"name": "edp", "set": {"engine": "edp_sgd"}}],
    )
    prepared = prepare.prepare_space(space, settings=settings)
    made = runner.start(prepared, settings, function=TOY).folder
    made.replace_plan(
        space_in(folder, **{**space.document(), "resources": {**GANG, **resources}}),
        made.plan(),
    )
    return made


@pytest.fixture
def ray_jobs(monkeypatch):
    """The jobs that are given to executors on Ray."""
    started = []

    def run_trials(jobs, *, settings, source=None, **_):
        if settings.executor == "local":
            real(jobs, settings=settings, source=source, **_)
        elif jobs or source is not None:
            started.extend(job.trial_id for job in jobs)

    real = driver.run_trials
    monkeypatch.setattr(driver, "run_trials", run_trials)
    leave_out_mlflow(monkeypatch)
    return started


@pytest.mark.parametrize("num_samples", [2, 50], ids=["all chosen", "no point left"])
def test_a_search_that_is_over_starts_no_ray(tmp_path, ray_jobs, num_samples):
    folder = finish_search(tmp_path, num_samples=num_samples)
    runner.resume(folder, settings_in(tmp_path))
    assert ray_jobs == []
    assert [record.status for record in folder.records()] == ["done"] * 2


def test_a_search_that_may_choose_more_starts_it_with_what_it_chose(tmp_path, ray_jobs):
    folder = finish_search(tmp_path, num_samples=1)
    document = folder.space().document()
    search = {**document["search"], "num_samples": 2}
    folder.replace_plan(
        space_in(tmp_path, **{**document, "search": search}), folder.plan()
    )
    runner.resume(folder, settings_in(tmp_path))
    assert ray_jobs == [folder.plan().trials[1].id]


def test_a_search_that_may_choose_more_gets_its_share_of_this_machine(
    tmp_path, monkeypatch
):
    leave_out_mlflow(monkeypatch)
    folder, seen = finish_search(tmp_path, num_samples=1, gpus_per_worker=None), []
    monkeypatch.setattr(runner, "_execute", lambda *given: seen.append(given[3]))
    runner.resume(folder, settings_in(tmp_path))
    assert [executed.gpus_per_worker for executed in seen] == [0.0]
