import math
import subprocess
import sys
from dataclasses import replace

import pytest

import sweep
from tests.refusals import refused
from tests.sweep.sweeps import settings_in, space_in

Z0 = "privacy.noise_multiplier"


def test_a_sweep_is_run_and_continued(tmp_path, capsys, toy_trials):
    settings = replace(settings_in(tmp_path), tracking=False)
    document = space_in(tmp_path).document()
    with refused("would"):
        sweep.run(document, budget_total=1e-3, settings=settings, quiet=True)
    with refused(r"budget.epsilon"):
        sweep.run(
            document, overrides={"budget.epsilon": -1}, settings=settings, quiet=True
        )
    assert not (tmp_path / "home" / "toy").exists()
    assert capsys.readouterr().err == ""
    first = sweep.run(document, budget_total=1e6, settings=settings)
    out, err = capsys.readouterr()
    assert out == ""
    assert sum(line.startswith("done: edp") for line in err.splitlines()) == 2
    more = [*document["variants"], {"name": "more", "set": {Z0: 2.0}}]
    with refused("toy"):
        sweep.run({**document, "variants": more}, settings=settings, quiet=True)
    with refused("the space with which toy was started"):
        sweep.run(
            {**document, "variants": more}, settings=settings, quiet=True, resume=True
        )
    again = sweep.run(document, settings=settings, quiet=True, resume=True)
    assert again.equals(first), "finished trials are kept"
    assert sweep.results("toy", settings=settings).equals(again)
    with refused("none"):
        sweep.results("none", settings=settings)


def test_results_have_the_axes_and_twenty_columns(tmp_path, toy_trials):
    settings = replace(settings_in(tmp_path), tracking=False)
    document = space_in(tmp_path).document()
    first = sweep.run(document, settings=settings, quiet=True)
    assert len(set(first)) == len(list(first)) == 20 + 1
    assert list(first)[:2] == ["name", Z0]
    every = sweep.results("toy", columns="all", settings=settings)
    assert {"threads", "group"} <= set(every) - set(first)
    assert first["ser"].equals(every["ser"])
    assert "threads" in every.attrs["curator_only"]
    assert set(first.attrs["curator_only"]) <= set(first)
    with refused("first or all.*'some'"):
        sweep.results("toy", columns="some", settings=settings)


def test_a_sweep_is_planned(tmp_path):
    settings = replace(settings_in(tmp_path), tracking=False)
    document = space_in(tmp_path, variants=[], axes={Z0: [1.0, 2.0]}).document()
    both = sweep.plan(document, settings=settings)
    assert not (tmp_path / "home" / "toy").exists()
    one = sweep.plan(document, overrides={Z0: 1.0}, settings=settings)
    assert (len(both.trials), both.refused, len(one.trials)) == (2, (), 1)
    alone = [trial.epsilon for trial in both.trials]
    assert one.epsilon == pytest.approx(alone[0], rel=1e-3)
    assert max(alone) < both.epsilon < sum(alone)
    assert both.delta == both.trials[0].delta
    limit = {"budget.epsilon": min(alone)}
    found = sweep.plan(document, overrides=limit, name="other", settings=settings)
    assert (found.name, len(found.trials), len(found.refused)) == ("other", 1, 1)
    assert "exceeds budget.epsilon" in found.refused[0].reason
    frame = found.to_frame()
    assert frame["reason"].tolist()[1] == found.refused[0].reason
    assert frame["epsilon"].tolist() == alone[::-1]


def test_the_total_of_a_plan_is_that_of_its_kind(tmp_path):
    settings = replace(settings_in(tmp_path), tracking=False)
    search = {"strategy": "tpe", "num_samples": 3, "seed": 0}
    fields = {"variants": [], "axes": {Z0: [1.0, 2.0]}, "search": search}
    adaptive = space_in(tmp_path, **fields).document()
    free = sweep.plan(adaptive, settings=settings)
    assert (free.to_choose, free.epsilon, free.delta) == (3, math.inf, None)
    bound = sweep.plan(adaptive, overrides={"budget.total": 50}, settings=settings)
    assert bound.epsilon == 50
    assert bound.delta > 0
    law = {"strategy": "private_selection", "num_trials": {"law": "poisson", "mean": 2}}
    drawn = space_in(tmp_path, **{**fields, "search": law}).document()
    best = sweep.plan(drawn, settings=settings)
    alone = [trial.epsilon for trial in best.trials]
    assert min(alone) < best.epsilon < math.inf
    base = {"name": "sgd", "baseline": True, "set": {"engine": "sgd"}}
    curator = space_in(tmp_path, variants=[base]).document()
    assert sweep.plan(curator, settings=settings).epsilon is None


def test_a_sweep_is_extended(tmp_path, capsys, toy_trials):
    settings = replace(settings_in(tmp_path), tracking=False)
    document = space_in(tmp_path, variants=[], axes={Z0: [0.5, 1.0]}).document()
    sweep.run({**document, "name": "first"}, settings=settings, quiet=True)
    second = {**document, "name": "second", "axes": {Z0: [2.0]}}
    before = sweep.run(second, settings=settings, quiet=True)
    given = {"settings": settings, "quiet": True}
    found = sweep.extend("second", overrides={Z0: [0.5, 3.0]}, **given)
    assert capsys.readouterr().err == ""
    assert dict(zip(found[Z0], found["taken_from"].notna(), strict=True)) == {
        2.0: False,
        0.5: True,
        3.0: False,
    }
    assert set(found["taken_from"].dropna()) == {"first"}
    assert found.loc[before.index[0], "ser"] == before["ser"].iloc[0]
    again = sweep.extend("second", document, reuse=False, **given)
    assert again["taken_from"].notna().sum() == 1
    assert len(again) == 4
    with refused("none"):
        sweep.extend("none", **given)


CODE = """
import sys, sweep
heavy = {"torch", "ray", "mlflow", "pandas", "numpy", "scipy", "rich", "pydantic"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
from sweep import extend, load_model, plan, results, run
import sweep.results.comparison, sweep.store.plans
assert all(map(callable, (extend, load_model, plan, results, run, sweep.results)))
assert not {"torch", "ray", "mlflow", "pandas"} & set(sys.modules)
assert set(dir(sweep)) == {*sweep.__all__, "__version__"}
assert sweep.__version__
"""


def test_the_package_stays_light_and_shows_its_interface_alone():
    subprocess.run([sys.executable, "-c", CODE], check=True)
