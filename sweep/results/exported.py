"""Integrity checks of the folders of trials and exports, by their manifests."""

from collections.abc import Sequence
from pathlib import Path

from sweep.results.privacy_cards import JSON
from sweep.store import manifest
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables.errors import InvalidData, InvalidInput

_MODEL = "model"


def require_export(folder: Path) -> None:
    """Check that an export, a trial's folder, or the `model` folder of one is
    unchanged.

    Raises: InvalidData where a file differs from its manifest or was added to the
        model, InvalidInput for an export without its privacy card or its manifest.
    """
    home = _home_of(folder.resolve())
    is_export = (home / "about.json").is_file()
    if manifest.exists(home) or (not is_export and _has_ended(home)):
        manifest.require_whole(home)
    if added := manifest.unlisted(home, _MODEL):
        raise InvalidData(
            f"expected only the files that {manifest.FILE} lists in {home}, got"
            f" {added[0]} as well"
        )
    if not is_export:
        return
    if not (home / JSON).is_file():
        raise InvalidInput(
            f"expected the privacy card {JSON} in the export {home}, got none"
        )
    if not manifest.exists(home):
        raise InvalidInput(f"expected {manifest.FILE} in the export {home}, got none")


def _home_of(folder: Path) -> Path:
    """The folder with the manifest: `folder`, or the one around it where `folder` is
    its model.
    """
    is_whole = (folder / _MODEL).is_dir() or manifest.exists(folder)
    return folder.parent if folder.name == _MODEL and not is_whole else folder


def _has_ended(home: Path) -> bool:
    """Whether the folder is that of a trial that has a card (a copy, too) or a
    result.
    """
    sweep = SweepFolder(home.parent.parent)
    return (home / JSON).is_file() or (
        sweep.exists and sweep.state().trial(home.name).result is not None
    )


def damages(folder: SweepFolder, records: Sequence[TrialRecord]) -> dict[str, str]:
    """Differences from the manifests of finished trials, a sentence by the trial's id.
    Large files are not read here, but at an export or a prediction.
    """
    found = {}
    for record in records:
        if not record.status.is_finished:
            continue
        place = folder.trial_folder(record.plan.id)
        differing = manifest.differences(place, thorough=False)
        if differing:
            found[record.plan.id] = (
                f"damaged: trial {record.plan.id} ({record.plan.name}) is not as"
                f" {place / manifest.FILE} has it: {', '.join(differing)}"
            )
    return found
