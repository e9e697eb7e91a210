"""Folders of trained language models, from an export or a trial of the synthesis
task.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sweep.results.export_documents import SYNTHESIS, SynthesisFile
from sweep.results.exported import require_export
from trainables import catalogue
from trainables.config.mechanism import default_delta, from_plain
from trainables.config.trial import SynthesisConfig, part
from trainables.dp.mechanism import Mechanism
from trainables.errors import InvalidInput, one_line
from trainables.fields import first_problem
from trainables.io.files import read_written_json
from trainables.models.configs import CausalLmConfig
from trainables.models.text.hub_lm import load_lm


@dataclass(frozen=True, eq=False)
class Trained:
    """A model folder: its models, the data for drawing from them, and their cost."""

    folder: Path
    about: SynthesisFile
    model: CausalLmConfig
    synthesis: SynthesisConfig
    mechanism: Mechanism
    n_is_declared: bool = True


def open_trained(folder: Path) -> Trained:
    """The model folder of an export or of a trial, or the folder itself.

    Raises: InvalidInput where there is none, InvalidData where it differs from its
    manifest.
    """
    require_export(folder)
    for place in (folder / "model", folder):
        file = place / SYNTHESIS
        if not file.is_file():
            continue
        try:
            return _open(place, SynthesisFile.model_validate(read_written_json(file)))
        except (InvalidInput, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInput(
                f"expected a synthesis model of this version in {place}, got another:"
                f" {_why(error)}"
            ) from None
    raise InvalidInput(
        f"expected a trained synthesis model ({SYNTHESIS}) in {folder}, got none"
        " (`sweep export` writes one)"
    )


def _open(place: Path, about: SynthesisFile) -> Trained:
    model = CausalLmConfig.model_validate(about.model)
    synthesis = part("synthesis", about.synthesis)
    fields = about.mechanism
    # A counted number of records is not published; without it no epsilon is finite.
    hidden = {"num_records": fields["expected_batch_size"], "delta": default_delta(1)}
    unknown = {name: hidden[name] for name in hidden if fields[name] is None}
    mechanism = from_plain({**fields, **unknown})
    return Trained(place, about, model, synthesis, mechanism, n_is_declared=not unknown)


def _why(error: Exception) -> str:
    """What a folder's description has or lacks, in one line."""
    if isinstance(error, ValidationError):
        return first_problem(error)
    if isinstance(error, KeyError):
        return f"{SYNTHESIS} has no {error.args[0]}"
    return one_line(str(error), characters=200)


def models_of(trained: Trained) -> tuple[dict[str, Any], Any]:
    """The model of each stage, and their tokenizer.

    Raises: InvalidInput where one is missing.
    """
    own = trained.about.stages
    method = catalogue.entry("generation", trained.synthesis.method)
    if own != method.stages:
        raise InvalidInput(
            f"expected a model of {' and '.join(method.stages)} in {trained.folder},"
            f" got {', '.join(own) or 'none'}"
        )
    return load_lm(trained.folder, own, trained.model, trained.synthesis)
