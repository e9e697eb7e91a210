"""Sweeps from Python do what the commands do: the same plan, the same refusals, frames out."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml

from sweep import notebook
from sweep.notebook import Sweep
from sweep.runtime import runner
from tests.sweep.sweeps import TOY, settings_in, space_in
from trainables.errors import InvalidInput

# MLflow's own imports and SQLAlchemy's unclosed pool.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Z0 = "privacy.noise_multiplier"


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials of a few milliseconds in the place of real ones."""
    for name in ("start", "resume"):
        monkeypatch.setattr(runner, name, partial(getattr(runner, name), function=TOY))


def test_a_plan_is_a_frame_and_runs_nothing(tmp_path: Path) -> None:
    document = space_in(tmp_path).document()
    planned = notebook.plan(
        document, overrides={"budget.epsilon": 60}, name="mine", settings=settings_in(tmp_path)
    )
    frame = planned.trials()
    assert (planned.plan.name, list(frame["runs"])) == ("mine", [True, False, True])
    assert frame["reason"].iloc[1].endswith("exceeds budget.epsilon=60")
    assert list(frame[Z0].iloc[1:]) == [0.5, 1.0]
    assert list(frame.index) == [trial.id for trial in planned.plan.trials]
    assert frame["epsilon"].iloc[2] < 60
    assert not (tmp_path / "home" / "mine").exists()
    with pytest.raises(InvalidInput, match=r"budget.epsilon"):
        notebook.plan(document, overrides={"budget.epsilon": -1}, settings=settings_in(tmp_path))


@pytest.mark.usefixtures("toy")
def test_a_sweep_is_run_resumed_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_in(tmp_path)
    document = space_in(tmp_path).document()
    with pytest.raises(InvalidInput, match="would"):
        notebook.run(document, budget_total=1e-3, settings=settings, quiet=True)
    assert not (tmp_path / "home" / "toy").exists()
    sweep = notebook.run(document, budget_total=1e6, settings=settings)
    out, err = capsys.readouterr()
    assert out == ""
    assert sum(line.startswith("done: edp") for line in err.splitlines()) == 2
    assert "toy: 3 done; " in err
    assert sweep.folder.about()["budget_total"] == 1e6

    changed = tmp_path / "changed.yaml"
    more = [*document["variants"], {"name": "more", "set": {Z0: 2.0}}]
    changed.write_text(yaml.safe_dump({**document, "variants": more}))
    with pytest.raises(InvalidInput, match="has changed"):
        notebook.resume(sweep, space=changed)
    again = notebook.resume(
        "toy", space=changed, accept_changes=True, settings=settings, quiet=True
    )
    assert capsys.readouterr() == ("", "")
    assert isinstance(again, Sweep)
    assert list(again.trials()["status"]) == ["done"] * 4

    trial = again.trials().index[1]
    found = notebook.compare(sweep, f"toy:{trial}", settings=settings)
    frame = found.frame()
    best = sweep.best()[0]
    assert list(frame.columns) == [f"toy:{best.plan.id}", f"toy:{trial}"]
    assert frame.loc["ser"].iloc[0] == best.metrics["ser"]
    where = sweep.standing()
    assert where is not None
    assert where.best.middle(where.metric).plan.id == best.plan.id


CODE = """
import sys, sweep
heavy = {"torch", "ray", "mlflow", "pandas", "numpy", "scipy", "rich", "pydantic"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
from sweep import compare, load, plan, resume, run
import sweep.results.comparison, sweep.store.plans
for name in ("compare", "load", "plan", "resume", "run"):
    assert callable(getattr(sweep, name)), name
assert not {"torch", "ray", "mlflow", "pandas"} & set(sys.modules)
assert sweep.store.plans.Plan is type(plan("quick", settings=None).plan)
"""


def test_the_package_stays_light_and_each_word_can_be_called() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)
