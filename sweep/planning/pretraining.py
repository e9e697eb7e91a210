"""From a pretraining's file to the encoder's folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from sweep.settings import Settings
from trainables.documents import read_yaml
from trainables.errors import InvalidInput
from trainables.pretraining.config import PretrainingConfig, parse

if TYPE_CHECKING:
    from trainables.pretraining.loop import Progress

_WORK = ".pretraining"  # of an unfinished one, inside of the encoder's folder


def read_pretraining(file: Path, changes: Mapping[str, Any]) -> PretrainingConfig:
    """The pretraining of a YAML file, with `changes` by dotted path.

    Raises: InvalidInput for a file that cannot be read, and for its first problem.
    """
    fields = read_yaml(file)
    if not isinstance(fields, dict):
        raise InvalidInput(f"expected a mapping of fields in {file}")
    for path, value in changes.items():
        section = fields
        *parents, last = path.split(".")
        for parent in parents:
            section = section.setdefault(parent, {})
            if not isinstance(section, dict):
                raise InvalidInput(f"expected a mapping at {parent} for --set {path}")
        section[last] = value
    return parse(fields)


def run_pretraining(
    config: PretrainingConfig,
    place: Path,
    settings: Settings,
    *,
    bits: int,
    report: Callable[[Progress], None],
) -> dict[str, Any]:
    """Train, or resume, and write the encoder to `place`; returns its card.

    Raises: InvalidInput for a folder with another encoder.
    """
    from trainables.encoders.about import ABOUT, read_about
    from trainables.encoders.folder import WORDS
    from trainables.encoders.tensors import Bits
    from trainables.pretraining.loop import pretrain
    from trainables.pretraining.result import write

    if bits not in get_args(Bits):
        raise InvalidInput(f"expected --bits to be 8, 16 or 32, got {bits}")
    if (place / ABOUT).is_file():
        raise InvalidInput(f"expected --to to name a new folder, got {place} with an encoder in it")
    work = place / _WORK
    _refuse_other(config, work)
    done = pretrain(
        config,
        folder=work,
        data_dir=settings.data_dir,
        cache_dir=settings.cache_dir,
        report=report,
    )
    table = work / WORDS
    if table.is_file():
        shutil.copyfile(table, place / WORDS)
    write(done, config, place, bits=cast(Bits, bits))
    shutil.rmtree(work)
    return dict(read_about(str(place)).card)


def _refuse_other(config: PretrainingConfig, work: Path) -> None:
    """Refuse to resume an unfinished pretraining with other settings."""
    kept, own = work / "config.json", config.model_dump_json()
    if kept.is_file():
        if kept.read_text(encoding="utf-8") != own:
            raise InvalidInput(
                f"expected the settings of the unfinished pretraining in {work.parent}, got others;"
                " delete the folder to begin anew"
            )
        return
    work.mkdir(parents=True, exist_ok=True)
    kept.write_text(own, encoding="utf-8")
