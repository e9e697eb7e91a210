"""The vault of a private selection: its trials, which no command shows.

$SWEEP_HOME/<sweep>/
  selected.json     the released trial, once all have ended
  vault/            private to its owner (0700), read by `sweep resume` and `sweep unseal`
    draws/          a separate sweep folder with every drawn trial
    ledger.jsonl    the releases of each trial, which are charged at unsealing
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
        """The log of the releases of each trial."""
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
        """Write the trials atomically. No budget stops any of them, because the release is
        charged as a whole.
        """
        mine = space.model_copy(update={"name": _DRAWS, "budget": Budget()})
        store.create(self.path, mine, plan, about={"command": [], "git_commit": None})

    def selection(self) -> dict[str, Any] | None:
        """The released `trial` (None: none was drawn) and its `draw`; None before the end."""
        return read_object(self._selected, SELECTED) if self.is_over else None

    @property
    def is_over(self) -> bool:
        """Whether all trials have ended and the best is released."""
        return self._selected.exists()

    def select(self, *, trial: str | None, draw: str | None) -> None:
        """Record the released trial."""
        write_json(self._selected, {"trial": trial, "draw": draw})
