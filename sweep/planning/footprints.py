"""Measured costs of trials on this machine, cached: a separate process takes a few steps of a
trial and discards them.
"""

from __future__ import annotations

import hashlib
import platform
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweep.planning.child_processes import answer_task, run_children
from sweep.planning.cost import kind_of
from sweep.settings import Settings
from sweep.store import files
from trainables.config import TrialConfig, parse
from trainables.errors import InvalidData
from trainables.system.footprint import Footprint

_MODULE = "sweep.planning.footprints"
_PATIENCE = 900.0  # seconds


class Footprints:
    """The measured footprints of this machine, by kind of trial (see `cost.kind_of`)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.cache_dir / "footprints"

    def footprint_of(self, config: TrialConfig) -> Footprint | None:
        """The measured footprint of a similar trial; None where missing or unreadable."""
        path = self._path(config)
        if not path.exists():
            return None
        try:
            return Footprint(**files.read_json(path))
        except (InvalidData, TypeError):
            return None

    def largest(self, configs: Iterable[TrialConfig]) -> Footprint | None:
        """The known footprint with the most memory, which every slot must provide."""
        known = [found for config in configs if (found := self.footprint_of(config)) is not None]
        return max(known, key=lambda each: each.memory_bytes, default=None)

    def measure(
        self, configs: Iterable[TrialConfig], *, say: Callable[[str], None] = lambda text: None
    ) -> list[Footprint]:
        """The footprint of each kind of trial among `configs`, measured now.

        Raises: TrialFailed where a measuring process fails.
        """
        kinds = {kind_of(config.model_dump(mode="json")): config for config in configs}
        found = []
        for number, config in enumerate(kinds.values(), 1):
            say(
                f"measuring kind {number} of {len(kinds)}:"
                f" {config.engine}, {config.model.name}, {config.data.name}"
            )
            task = {
                "config": config.model_dump(mode="json"),
                "data_dir": str(self._settings.data_dir.resolve()),
                "cache_dir": str(self._settings.cache_dir.resolve()),
            }
            (answer,) = run_children(_MODULE, [task], patience=_PATIENCE)
            found.append(Footprint(**answer))
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write_json(self._path(config), answer)
        return found

    def _path(self, config: TrialConfig) -> Path:
        named = f"{platform.node()} {kind_of(config.model_dump(mode='json'))}"
        return self._folder / f"{hashlib.sha256(named.encode()).hexdigest()[:16]}.json"


def _measure(task: dict[str, Any]) -> dict[str, Any]:
    import torch

    from trainables import catalogue
    from trainables.probing import measure

    torch.set_num_threads(1)
    config = parse(task["config"])
    entry = catalogue.entry("tasks", config.task)
    with tempfile.TemporaryDirectory() as folder:
        places = {name: Path(task[name]) for name in ("data_dir", "cache_dir")}
        return asdict(measure(lambda: entry.probe(config, folder=Path(folder), **places)))


if __name__ == "__main__":
    answer_task(_measure)
