"""What a private selection on a real Ray leaves outside its vault: no trial, and no number."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from search_spaces.space import SearchSpace
from sweep.planning.prepare import prepare_space
from sweep.runtime import runner
from sweep.runtime.on_ray import gang
from sweep.search import private_selection as search
from sweep.store.plans import Plan
from sweep.store.vault import Vault
from tests.sweep.runtime.test_private_selection import _fields
from tests.sweep.sweeps import TOY, settings_in, space_in

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray's own
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_nothing_of_ray_names_a_drawn_trial_or_depends_on_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One trial is drawn, for two slots; Tune would be shown at once, and a killed process has left
    its folder.
    """
    monkeypatch.setattr(search, "draw_number", lambda law, random: 1)
    monkeypatch.setattr(gang, "_TUNE_SECONDS", -1.0)
    started, trainer, seal = [], gang._Round._trainer, Vault.seal

    def noted(self: gang._Round, slot: int, **options: Any) -> Any:
        started.append(slot)
        return trainer(self, slot, **options)

    def seal_and_leave(self: Vault, space: SearchSpace, plan: Plan) -> None:
        seal(self, space, plan)
        (self.draws.path / ".ray" / "killed" / plan.trials[0].id).mkdir(parents=True)

    monkeypatch.setattr(gang._Round, "_trainer", noted)
    monkeypatch.setattr(Vault, "seal", seal_and_leave)
    fields = _fields(resources={"executor": "gang", "workers": 1, "slots": 2})
    settings = replace(settings_in(tmp_path), tracking=False)
    prepared = prepare_space(space_in(tmp_path, **fields), settings=settings)
    folder = runner.start(prepared, settings, function=TOY).folder
    (drawn,) = Vault(folder).draws.plan().trials
    assert sorted(started) == [0, 1]
    assert not (Vault(folder).draws.path / ".ray").exists()
    # Ray's own choice; other tests of this process have left theirs.
    session = max(Path("/tmp/ray").glob(f"session_*_{os.getpid()}"))
    assert any(session.rglob("raylet.out"))
    for path in (*session.rglob("*"), *tmp_path.rglob("*")):
        if "vault" not in path.parts:
            assert path.name not in (drawn.id, "tune"), path
            assert not path.is_file() or drawn.id.encode() not in path.read_bytes(), path
