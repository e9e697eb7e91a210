"""The vault of a private selection: its trials, which no command shows.

$SWEEP_HOME/<sweep>/
  selected.json     which trial left, once all have ended
  vault/            the owner's alone (0700), read by `sweep resume` and `sweep unseal`
    draws/          a sweep folder of its own: every trial that was drawn, and what came of it
    ledger.jsonl    what each trial has released, which counts should it ever be unsealed
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from search_spaces.parts import Budget
from search_spaces.space import SearchSpace
from sweep.store import sweeps as store
from sweep.store.files import read_object, write_json
from sweep.store.kinds import SELECTED
from sweep.store.plans import Plan
from sweep.store.sweeps import SweepFolder

_DRAWS, _SELECTED = "draws", "selected.json"


class Vault:
    """The vault in the folder of a sweep."""

    def __init__(self, sweep: SweepFolder) -> None:
        self.path = sweep.path / "vault"
        self._selected = self.path / _SELECTED

    @property
    def ledger_file(self) -> Path:
        """What each trial has released."""
        return self.path / "ledger.jsonl"

    @property
    def is_sealed(self) -> bool:
        """Whether it has trials."""
        return (self.path / _DRAWS / "sweep.json").exists()

    @property
    def draws(self) -> SweepFolder:
        """The trials that were drawn."""
        return SweepFolder(self.path / _DRAWS)

    def seal(self, space: SearchSpace, plan: Plan) -> None:
        """Put the trials in, whole or not at all. No budget of theirs cuts any of them off: what
        leaves is paid for as a whole.
        """
        mine = space.model_copy(update={"name": _DRAWS, "budget": Budget()})
        store.create(self.path, mine, plan, about={"command": [], "git_commit": None})

    def selected(self) -> dict[str, Any] | None:
        """`trial` that left (None: none was drawn), and its `draw`; None before all have ended."""
        return read_object(self._selected, SELECTED) if self.is_over else None

    @property
    def is_over(self) -> bool:
        """Whether all trials have ended and the best has left."""
        return self._selected.exists()

    def select(self, *, trial: str | None, draw: str | None) -> None:
        """Write down which trial has left."""
        write_json(self._selected, {"trial": trial, "draw": draw})
