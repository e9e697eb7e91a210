"""What a private selection on a real Ray leaves outside its vault: no trial, and no
number.
"""

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from ray.tune import Tuner

from sweep.planning.prepare import prepare_space
from sweep.runtime import runner, tune
from sweep.runtime.events import RunSettings
from sweep.search import private_selection as search
from sweep.store.sweeps import Vault
from tests.libraries import IGNORED
from tests.sweep.runtime.test_private_selection import _fields
from tests.sweep.sweeps import TOY, settings_in, space_in

pytestmark = [pytest.mark.slow, *IGNORED]  # a Ray of its own


def sessions():
    """Where Rays of this process have their files."""
    place = Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp")
    return set(place.glob(f"ray-*/session_*_{os.getpid()}"))


def test_nothing_of_ray_names_a_drawn_trial_or_depends_on_their_number(
    tmp_path, monkeypatch
):
    """Three trials are drawn for one slot: Tune is given the slot. A killed process has
    left its folder and that of its Ray, whose logs count calls.
    """
    killed, before = tmp_path / "session", sessions()
    monkeypatch.setattr(search, "draw_number", lambda law, random: 3)
    started, worker_group, seal, explored = [], tune.worker_group, Vault.seal, []
    while_it_ran = []

    def noted(name, *, slot, **options):
        started.append(slot)
        return worker_group(name, slot=slot, **options)

    def seal_and_leave(self, space, plan):
        seal(self, space, plan)
        (self.draws.path / ".ray" / "killed" / plan.trials[0].id).mkdir(parents=True)
        killed.mkdir()
        (self.draws.path / ".ray" / "session.json").write_text(
            json.dumps([str(killed)])
        )

    def noted_tuner(*arguments, **options):
        explored.append(options["param_space"])
        while_it_ran.extend(sessions() - before)
        return Tuner(*arguments, **options)

    # Ray's dashboard shows what its logs hold, and starts as many processes as all the
    # rest.
    monkeypatch.setattr(runner, "RunSettings", partial(RunSettings, dashboard=False))
    monkeypatch.setattr(tune, "gang", noted)
    monkeypatch.setattr(tune.tune, "Tuner", noted_tuner)
    monkeypatch.setattr(Vault, "seal", seal_and_leave)
    fields = _fields(resources={"executor": "gang", "workers": 1, "slots": 1})
    settings = replace(settings_in(tmp_path), tracking=False)
    prepared = prepare_space(space_in(tmp_path, **fields), settings=settings)
    folder = runner.start(prepared, settings, function=TOY).folder
    drawn = [trial.id for trial in Vault(folder).draws.plan().trials]
    assert len(drawn) == 3
    assert explored == [{"slot": {"grid_search": [0]}}]
    assert started == [0]
    assert not (Vault(folder).draws.path / ".ray").exists()
    assert len(while_it_ran) == 1
    assert sessions() == before
    assert not killed.exists()
    for path in tmp_path.rglob("*"):
        if "vault" not in path.parts:
            assert path.name not in drawn, path
            content = path.read_bytes() if path.is_file() else b""
            assert not any(name.encode() in content for name in drawn), path
