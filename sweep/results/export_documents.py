"""The documents of an export. Their fields are the allow list of its content."""

import shutil
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat, ValidationError
from safetensors import SafetensorError, safe_open

from sweep.results.export_encoder import write_encoder
from sweep.store.files import read_json, write_json
from trainables.cards.card import Document
from trainables.data.records import LabelSchema
from trainables.data.tokenization import Tokenization
from trainables.errors import InvalidInput
from trainables.io.files import dump_json
from trainables.models.encoders import hub
from trainables.models.encoders.named_files import copies_in, encoders_of

MODEL, SYNTHESIS, WEIGHTS = "model.json", "synthesis.json", "weights.safetensors"
# What a tokenizer and a language model are loaded from (`models._hub_lm`); public
# moments.
_FILES = ("sizes.json", "base.json", "tokenizer.json", "moments-[0-9].safetensors")
_FOLDER = "tokenizer"


class ModelFile(Document):
    """`model.json` of a model of intents and slots: architecture and labels."""

    model: dict[str, Any]
    intents: tuple[str, ...]
    slots: tuple[str, ...]
    schema_source: str
    tokenize: Tokenization = "space"
    provenance: str = ""
    encoder_digest: str = ""


class SynthesisFile(Document):
    """`synthesis.json` of language models: architecture, training settings, and the
    frequencies of the prompts, which are public or released with noise.
    """

    model: dict[str, Any]
    synthesis: dict[str, Any]
    stages: tuple[str, ...]
    frequencies: dict[str, FiniteFloat]
    mechanism: dict[str, Any]
    corpus: str
    accountant: str | None = None
    provenance: tuple[str, ...] = ()


class About(Document):
    """`about.json`: the origin and the usage of an export."""

    sweep: str
    trial: str
    name: str
    chosen_by: str | None
    repeat: str
    predict: str
    command: tuple[str, ...]
    git_commit: str | None
    versions: dict[str, str]
    epochs_done: int
    notes: tuple[str, ...]


def write_model(source: Path, target: Path) -> None:
    """Copy the model folder of a trial: weights, tokenizer, and the named fields of its
    JSON files. Also write label maps, and a BERT's encoder in the format of
    `transformers`.

    Raises: InvalidInput where the trial has no complete model.
    """
    weights = source / WEIGHTS
    if not weights.is_file():
        raise InvalidInput(
            f"expected the trial's model in {weights}, got none: it cannot be exported"
        )
    try:
        with safe_open(weights, framework="numpy") as tensors:
            has_weights = bool(tensors.keys())
    except (OSError, SafetensorError):
        has_weights = False
    if not has_weights:
        raise InvalidInput(
            f"expected weights in {weights}, got an empty or damaged file"
        )
    target.mkdir(mode=0o700)
    kinds: dict[str, type[Document]] = {MODEL: ModelFile, SYNTHESIS: SynthesisFile}
    known = {name: kind for name, kind in kinds.items() if (source / name).is_file()}
    if not known:
        raise InvalidInput(
            f"expected a model ({' or '.join(kinds)}) in {source}, got none"
        )
    for name, kind in known.items():
        try:
            document = kind.model_validate(read_json(source / name))
        except ValidationError as problem:
            field = ".".join(str(part) for part in problem.errors()[0]["loc"])
            raise InvalidInput(
                f"expected {source / name} as a trial writes it, got a damaged {field}"
            ) from None
        if isinstance(document, SynthesisFile):
            from trainables.models.text.hub_lm import copy_base  # torch

            # Of a local language model adapters get a copy, in place of its path.
            encoder = copy_base(
                document.model.get("encoder", "scratch"), source, target
            )
            model = {**document.model, "encoder": encoder}
            document = document.model_copy(update={"model": model})
        dump_json(target / name, document.to_dict(), indent=1)
    for file in (each for name in (WEIGHTS, *_FILES) for each in source.glob(name)):
        if file.is_file():
            shutil.copy2(file, target / file.name)
    if (source / _FOLDER).is_dir():
        shutil.copytree(source / _FOLDER, target / _FOLDER)
    if MODEL in known:
        fields = read_json(target / MODEL)
        schema = LabelSchema(
            intents=tuple(fields["intents"]),
            slots=tuple(fields["slots"]),
            source=fields["schema_source"],
        )
        labels = {"intents": schema.intents, "tags": schema.tags}
        maps = {name: dict(enumerate(of)) for name, of in labels.items()}
        write_json(target / "labels.json", maps)
        copied, encoders = write_encoder(target), encoders_of(fields["model"])
        if copied is not None and encoders:  # instead of the paths of local encoders
            copies = map(str, copies_in(Path(copied.name), number=len(encoders)))
            named = [
                c if hub.is_local(e) else e
                for e, c in zip(encoders, copies, strict=True)
            ]
            fields["model"]["encoder"] = named if len(named) > 1 else named[0]
            dump_json(target / MODEL, fields, indent=1)
