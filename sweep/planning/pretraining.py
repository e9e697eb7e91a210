"""From a pretraining's file, or names of public corpora, to the encoder's folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.paths import set_all
from sweep import interrupts
from sweep.settings import Settings
from trainables.errors import InvalidInput
from trainables.io.files import read_yaml
from trainables.pretraining.config import PretrainingConfig, parse
from trainables.pretraining.left_out import listed_corpora
from trainables.system import checkpoint

if TYPE_CHECKING:
    from trainables.pretraining.loop import Progress

_WORK = ".pretraining"  # of an unfinished one, inside of the encoder's folder
_GOES_ON = "the same `sweep pretrain` continues, from at most a minute before"


def read_pretraining(
    file: Path | None, changes: Mapping[str, Any], *, public: Sequence[str] = ()
) -> PretrainingConfig:
    """The pretraining of a YAML file, or that of MiniLM on the corpora `public`, with
    `changes` by dotted path.

    Raises: InvalidInput for a file that cannot be read, for its first problem, and
        unless either a file or a corpus is given.
    """
    if (file is None) == (not public):
        raise InvalidInput(
            "expected either a FILE or --public with names of public corpora"
        )
    fields: Any = _of_minilm(public) if file is None else read_yaml(file)
    if not isinstance(fields, dict):
        raise InvalidInput(f"expected a mapping of fields in {file}")
    return parse(set_all(fields, changes.items()))


def _of_minilm(public: Sequence[str]) -> dict[str, object]:
    """The recipe of the encoder that ships, without texts of other corpora that have a
    list.
    """
    from trainables.dp.layers.precision import multiplies_bf16

    return {
        "name": "mine",
        "encoder": {"name": "bert", "encoder": "minilm", "num_layers": 6},
        "vocabulary": 16_000,
        "frozen_layers": 2,
        "layers": [2, 4, 6],
        "corpora": [{"name": name} for name in public],
        "leave_out": [name for name in listed_corpora() if name not in public],
        "learning_rate": 2e-4,
        "precision": "bf16" if multiplies_bf16() else "fp32",
    }


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
    from trainables.models.encoders.about import ABOUT
    from trainables.pretraining.loop import pretrain
    from trainables.pretraining.result import BITS, write

    if bits not in BITS:
        raise InvalidInput(f"expected --bits to be 8, 16 or 32, got {bits}")
    if place.is_file():
        raise InvalidInput(f"expected --to to name a new folder, got {place}, a file")
    if (place / ABOUT).is_file():
        raise InvalidInput(
            f"expected --to to name a new folder, got {place} with an encoder in it"
        )
    refuse_exported(config.encoder.encoder, settings)
    work = place / _WORK
    _begin(config, work)
    interrupts.now.explain = lambda: _GOES_ON
    try:
        done = pretrain(
            config,
            folder=work,
            data_dir=settings.data_dir,
            cache_dir=settings.cache_dir,
            report=report,
        )
    except InvalidInput:
        if not checkpoint.exists(work):  # refused before its first step
            shutil.rmtree(work)
            with suppress(OSError):  # it has files of others
                place.rmdir()
        raise
    card = write(done, config, place, bits=bits)
    shutil.rmtree(work)
    return card


def refuse_exported(encoder: str, settings: Settings) -> None:
    """Raises: InvalidInput for an export of a trial, by its file or as the home knows
    it, which no pretraining may start from: its result would be taken for public.
    """
    from sweep.spending.exports import Exports
    from trainables.models.encoders.exported import folder_of
    from trainables.models.encoders.origin import is_export

    place = folder_of(encoder)
    if place is not None and (
        is_export(place) or Exports(settings.home).matching(encoder)
    ):
        raise InvalidInput(
            f"expected encoder.encoder to be public, got {encoder}, which was exported"
            " from a trial: pretraining has no epsilon; a trial with this"
            " model.encoder composes both"
        )


def _begin(config: PretrainingConfig, work: Path) -> None:
    """Begin in the folder `work`, or continue there with the same settings.

    Raises: InvalidInput where trained steps of other settings are in it.
    """
    kept, own = work / "config.json", config.model_dump_json()
    if kept.is_file() and kept.read_text(encoding="utf-8") == own:
        return
    if checkpoint.exists(work):
        raise InvalidInput(
            f"expected the settings of the unfinished pretraining in {work.parent}, got"
            f" others; delete {work} to start again"
        )
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    kept.write_text(own, encoding="utf-8")
