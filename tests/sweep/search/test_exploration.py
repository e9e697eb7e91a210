import json
import math
import time
import urllib.error
import urllib.request

import optuna
import pytest

from sweep.search.exploration import add_study, dashboard
from sweep.search.suggest import quietly
from tests.sweep.results.test_paired_comparison import sweep_of
from tests.sweep.results.test_select import record

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning"
)  # the dashboard's own files


def test_axes_and_objectives_are_those_of_the_trials():
    """And figures for the curator alone are named so."""
    records = [
        record(
            name,
            values={"privacy.max_grad_norm": norm, "model": model},
            **{"ser": ser, "epsilon": e, "mia_shadow_auc": 0.6},
        )
        for name, norm, model, ser, e in (
            ("a", 0.1, "clc", 0.3, 100.0),
            ("b", 10.0, "bert", 0.2, 10.0),
        )
    ]
    records += [
        record("open", ser=0.1, epsilon=math.inf),
        record("unmeasured", epsilon=1.0),
    ]
    with quietly():
        study = add_study(optuna.storages.InMemoryStorage(), "s", records)
    assert [each.values for each in study.trials] == [[0.3, 2.0], [0.2, 1.0]]
    assert all(trial.duration.total_seconds() >= 0 for trial in study.trials)
    first = study.trials[0]
    assert first.params["privacy.max_grad_norm"] == 0.1
    assert first.params["model"] == "clc"
    assert first.distributions["privacy.max_grad_norm"].log
    assert study.directions == [optuna.study.StudyDirection.MINIMIZE] * 2
    assert first.user_attrs["curator_only: mia_shadow_auc"] == 0.6
    assert "ser" not in first.user_attrs


def test_the_dashboard_serves_a_study_a_sweep(tmp_path):
    sweep_of(tmp_path, "one", 0.5, 0.25)
    with dashboard(tmp_path, host="127.0.0.1", token="s3cret-token") as address:
        assert address is not None
        for page in ("/", "/dashboard", "/api/studies", "/static/bundle.js"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"{address}{page}")
        found = []
        with_token = {"Authorization": "Bearer s3cret-token"}
        asked = urllib.request.Request(f"{address}/api/studies", headers=with_token)
        until = time.monotonic() + 30
        while not found and time.monotonic() < until:
            with urllib.request.urlopen(asked) as answer:
                found = json.load(answer)["study_summaries"]
    assert [study["study_name"] for study in found] == ["one"]
