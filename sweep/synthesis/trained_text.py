"""Folders of trained language models, from an export or a trial of the synthesis task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sweep.results.export_documents import SynthesisFile
from sweep.results.exported import require_export
from trainables import catalogue
from trainables.config import SynthesisConfig, part
from trainables.errors import InvalidInput, one_line
from trainables.files import read_written_json
from trainables.frozen import first_problem
from trainables.generation._material import PARSES, UTTERANCES
from trainables.guarantee.mechanism import Mechanism
from trainables.models._hub_lm import load_lm
from trainables.models.causal_lm import Config
from trainables.privacy.from_config import default_delta, from_plain

ABOUT = "synthesis.json"


@dataclass(frozen=True, eq=False)
class Trained:
    """A model folder: its models, the data for drawing from them, and their cost."""

    folder: Path
    about: dict[str, Any]
    mechanism: Mechanism
    n_is_declared: bool = True

    @property
    def synthesis(self) -> SynthesisConfig:
        """The config of its generation."""
        found: SynthesisConfig = part("synthesis", self.about["synthesis"])
        return found


def open_trained(folder: Path) -> Trained:
    """The model folder of an export or of a trial, or the folder itself.

    Raises: InvalidInput where there is none, InvalidData where it differs from its manifest.
    """
    require_export(folder)
    for place in (folder / "model", folder):
        file = place / ABOUT
        if not file.is_file():
            continue
        try:
            return _open(place, read_written_json(file))
        except (InvalidInput, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInput(
                f"expected a synthesis model of this version in {place}, got another: {_why(error)}"
            ) from None
    raise InvalidInput(
        f"expected a trained synthesis model ({ABOUT}) in {folder}, got none"
        " (`sweep export` writes one)"
    )


def _open(place: Path, about: dict[str, Any]) -> Trained:
    fields = about["mechanism"]
    Config.model_validate(about["model"])
    part("synthesis", about["synthesis"])
    for name in ("stages", "frequencies", "corpus", "provenance"):
        about[name]
    about = {**about, **SynthesisFile.model_validate(about).model_dump()}
    # A counted number of records is not published; without it no epsilon is finite.
    hidden = {"num_records": fields["expected_batch_size"], "delta": default_delta(1)}
    unknown = {name: hidden[name] for name in hidden if fields[name] is None}
    mechanism = from_plain({**fields, **unknown})
    return Trained(place, about, mechanism, n_is_declared=not unknown)


def _why(error: Exception) -> str:
    """What a folder's description has or lacks, in one line."""
    if isinstance(error, ValidationError):
        return first_problem(error)
    if isinstance(error, KeyError):
        return f"{ABOUT} has no {error.args[0]}"
    return one_line(str(error), characters=200)


def models_of(trained: Trained, parses: Trained | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Model and tokenizer of each stage.

    Raises: InvalidInput where the folders do not match.
    """
    own = tuple(trained.about["stages"])
    method = catalogue.entry("generation", trained.synthesis.method)
    folders = dict.fromkeys(own, trained)
    if parses is not None:
        if own != (UTTERANCES,) or tuple(parses.about["stages"]) != (PARSES,):
            raise InvalidInput(
                "expected a model of utterances, and with --parses one of parses,"
                f" got {', '.join(own)} and {', '.join(parses.about['stages'])}"
            )
        first, second = (
            (home.about["corpus"], home.mechanism.num_records) for home in (trained, parses)
        )
        if first != second:
            raise InvalidInput(
                f"expected two stages of one data set, got {first[0]} (n={first[1]}) and"
                f" {second[0]} (n={second[1]})"
            )
        _require_one_public_part(trained, parses)
        folders[PARSES] = parses
    missing = [stage for stage in method.STAGES if stage not in folders]
    if missing:
        raise InvalidInput(
            f"expected a model of the stage {missing[0]} too, got {', '.join(own)} alone"
            " (--parses names its folder)"
        )
    models, tokenizers = {}, {}
    for stage, home in folders.items():
        config = Config.model_validate(home.about["model"])
        found, tokenizer = load_lm(home.folder, (stage,), config, home.synthesis)
        models[stage], tokenizers[stage] = found[stage], tokenizer
    return models, tokenizers


def _require_one_public_part(*homes: Trained) -> None:
    """Raises: InvalidInput where a record that one trial protects may be public to another, which
    reads it without noise: no epsilon would hold for it.
    """
    first, second = (home.about["public_part"] for home in homes)
    for name, value in first.items():
        if second[name] != value:
            raise InvalidInput(
                "expected two stages that take the same records as public, got"
                f" {name}={value} and {second[name]}"
            )
