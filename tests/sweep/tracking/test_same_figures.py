"""A trial and its baseline have the same figures on every surface."""

import shutil

import pytest

from sweep.results import frame
from sweep.tracking.mlflow_store import Tracker, metric_name
from tests.dashboards.pages import cells_of
from tests.sweep.tracking.conftest import runs_in

# Of MLflow's imports and SQLAlchemy's pool.
pytestmark = pytest.mark.filterwarnings("ignore")

_FIGURES = ("ser", "epsilon", "seconds", "leakage")


@pytest.fixture
def said(finished, sweep, settings, monkeypatch, line, tmp_path):
    """By the surface, the figures of each trial by their names."""
    others = shutil.ignore_patterns(sweep.name)
    shutil.copytree(
        finished.path.parent, settings.home, ignore=others, dirs_exist_ok=True
    )
    monkeypatch.setenv("SWEEP_HOME", str(settings.home))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", settings.tracking_uri)
    base, mine = (record.plan.id for record in sweep.records()[:2])
    Tracker(settings).deliver(sweep)
    table = frame.results(sweep.name, columns="all", settings=settings)
    shown = {t["id"]: t for t in line.facts("show", sweep.name)["trials"]}
    made = line.facts(
        *("report", sweep.name, "--epsilon", "1e9", "--output", tmp_path / "out")
    )
    with open(made["page"], encoding="utf-8") as page:
        cells = cells_of(page.read())
    compared = line.facts("compare", f"{sweep.name}:{base}", f"{sweep.name}:{mine}")
    runs = runs_in(settings)
    logged = {
        trial: {n: runs[trial].data.metrics.get(metric_name(n)) for n in _FIGURES}
        for trial in (base, mine)
    }
    pairs = compared["figures"]
    found = {
        "results": {trial: table.loc[trial].to_dict() for trial in (base, mine)},
        "show": {t: {**shown[t], **shown[t]["metrics"]} for t in (base, mine)},
        "report": {
            t: {name: cells.get((t, name)) for name in (*_FIGURES, frame.CHANGE)}
            for t in (base, mine)
        },
        "compare": {
            trial: {name: pair[side] for name, pair in pairs.items()}
            for side, trial in enumerate((base, mine))
        },
        "mlflow": logged,
    }
    change = compared["ser_change_percent"]
    found["compare"][mine][frame.CHANGE] = change and change[0]
    return base, mine, found


def test_one_pair_has_equal_figures_on_every_surface(said):
    base, mine, found = said
    for trial in (base, mine):
        for name in ("ser", "epsilon"):
            values = {
                surface: float(value)
                for surface, trials in found.items()
                if (value := trials[trial].get(name)) is not None
            }
            # An infinite epsilon is a tag in MLflow.
            assert len(values) == (4 if values["show"] == float("inf") else 5), values
            assert len(set(values.values())) == 1, (name, values)
    assert found["results"][mine]["seconds"] == found["mlflow"][mine]["seconds"]
    # Other tests have a pair with a change (`test_frame`, `test_report`).
    del found["mlflow"]
    changes = {trials[mine].get(frame.CHANGE) for trials in found.values()}
    assert len(changes) == 1
