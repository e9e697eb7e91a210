"""Sweeps from Python behave as the commands: the same plan, the same refusals, frames out."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

import sweep
from sweep import notebook
from sweep.notebook import Sweep
from sweep.results.summary import columns, summary
from sweep.results.tables.plan import plan_table
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
    (where,) = sweep.standings()
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


class Page(HTMLParser):
    """Rows of cells of a page's tables, the text outside of them, and what headers are of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.scopes: list[str] = []
        self.open: list[str] = []
        self.beside = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        if tag == "th":
            self.scopes.append(dict(attrs)["scope"] or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] in (["th"], ["td"]):
            self.rows[-1][-1] += data
        else:
            self.beside += data


@pytest.mark.usefixtures("toy")
def test_a_notebook_shows_the_tables_of_the_terminal(tmp_path: Path) -> None:
    settings = replace(settings_in(tmp_path), tracking=())
    document = space_in(tmp_path).document()
    document["variants"][1]["name"] = "<b>edp</b>"
    planned = notebook.plan(document, settings=settings)
    table = plan_table(planned.plan)
    shown = Page(planned._repr_html_())
    heads = [column.head for column in table.columns_at(10_000)[0]]
    assert shown.rows[0] == heads
    assert "epsilon" in heads
    assert len(shown.rows) == 1 + len(planned.plan.trials)
    assert any("<b>edp</b>" in cell for row in shown.rows for cell in row), "names are text"
    assert shown.scopes == ["col"] * len(heads) + ["row"] * len(planned.plan.trials)
    assert table.title in shown.beside

    done = notebook.run(document, settings=settings, quiet=True)
    results = Page(done._repr_html_())
    ids = results.rows[0].index("id")
    assert all(
        record.plan.id.startswith(row[ids])
        for record, row in zip(done.records, results.rows[1:], strict=True)
    )
    assert "3 done" in results.beside

    compared = notebook.compare(done, done, settings=settings)
    sides = Page(compared._repr_html_())
    assert sides.rows[0] == ["", compared.first.name, compared.second.name]
    assert {"trial", "SER"} <= {row[0] for row in sides.rows}


def test_the_package_shows_its_api_alone() -> None:
    assert set(dir(sweep)) == {*sweep.__all__, "__version__"}
    assert all(getattr(sweep, name) is not None for name in dir(sweep))


@pytest.mark.usefixtures("toy")
def test_frames_and_json_have_the_same_columns(tmp_path: Path) -> None:
    done = notebook.run(
        space_in(tmp_path).document(),
        settings=replace(settings_in(tmp_path), tracking=()),
        quiet=True,
    )
    frame = done.trials()
    for trial in summary(done.folder)["trials"]:
        for name in columns(done.records[0]):
            assert name in trial
            mine = frame.loc[trial["id"], name]
            assert mine == trial[name] or (trial[name] is None and mine is None) or mine != mine
