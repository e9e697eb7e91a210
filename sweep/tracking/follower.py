"""A tracker that writes files, with a note of what it has written of each trial."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from sweep.store.files import read_json, write_json
from sweep.store.sweeps import SweepFolder
from sweep.tracking.facts import Audience, TrialFacts, facts_of
from trainables.errors import InvalidInput


class Writer(Protocol):
    """Writes trials into a folder of the sweep's, which is deleted with the sweep."""

    def write(self, trial: TrialFacts, *, place: Path) -> None:
        """Write the news of a trial that this writer has open; otherwise write the whole trial and
        replace its earlier files.
        """
        ...

    def close(self) -> None:
        """End writing in this process."""
        ...


class Follower:
    """A tracker that reads trials off the disk and has a `Writer` write them. One thread at a time.

    Under `root` each sweep has a folder of its name, with a note of the written state of each
    trial, so that a resumed sweep writes nothing twice.
    """

    def __init__(self, writer: Writer, *, root: Path, audience: Audience) -> None:
        self._writer = writer
        self._root = root
        self._audience: Audience = audience
        self._written: dict[tuple[str, str], tuple[int, str]] = {}  # number of epochs, state

    def deliver(
        self, folder: SweepFolder, trial_ids: Iterable[str] | None = None, *, running: bool
    ) -> None:
        """Write the news of these trials; None: of every trial that has begun."""
        sweep_id = str(folder.about()["id"])
        planned = {trial.id: trial for trial in folder.plan().trials}
        for trial_id in planned if trial_ids is None else trial_ids:
            if trial_id not in planned:
                continue
            record = folder.record(planned[trial_id], running=running)
            if record.status.has_begun:
                rows = folder.epochs(trial_id)
                self._write(
                    facts_of(
                        record,
                        rows,
                        sweep=folder.name,
                        sweep_id=sweep_id,
                        audience=self._audience,
                    )
                )

    def delete(self, folder: SweepFolder) -> None:
        """Remove the files of the sweep."""
        sweep_id = str(folder.about()["id"])
        self._written = {key: what for key, what in self._written.items() if key[0] != sweep_id}
        self._writer.close()
        shutil.rmtree(self._root / folder.name, ignore_errors=True)

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()

    def _write(self, trial: TrialFacts) -> None:
        key = (trial.sweep_id, trial.trial)
        place = self._root / trial.sweep
        note = place / f"{trial.trial}.json"
        if key not in self._written and trial.is_over and _read_note(note) == _note(trial):
            return
        if self._written.get(key) == (len(trial.epochs), trial.state):
            return
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._writer.write(trial, place=place)
        self._written[key] = (len(trial.epochs), trial.state)
        if trial.is_over:
            write_json(note, _note(trial))


def _note(trial: TrialFacts) -> dict[str, object]:
    return {"sweep_id": trial.sweep_id, "epochs": len(trial.epochs), "state": trial.state}


def _read_note(note: Path) -> object:
    try:
        return read_json(note)
    except (OSError, InvalidInput):
        return None
