"""The encoder of an exported model."""

import shutil
from pathlib import Path

from trainables.io.files import read_written_json
from trainables.models.encoders.about import MOMENTS
from trainables.models.encoders.hub import files_of, public_encoder
from trainables.models.encoders.named_files import (
    ENCODER,
    copies_in,
    encoders_of,
    moments_file,
    require_files_of,
)

FOLDER = "transformers"
FIXED = "encoder"


def write_encoder(model_folder: Path) -> Path | None:
    """Write `model_folder`/transformers, from which `BertModel.from_pretrained` loads
    the encoder (without its pooler), or `model_folder`/encoder, the public encoders
    that heads read; None for other models.

    Our heads (intent, tags, CRF) stay in weights.safetensors, which `sweep.load_model`
    reads.

    Raises: InvalidInput where the encoder, or a file of word vectors, is another than
        the one that `model.json` names.
    """
    about = read_written_json(model_folder / "model.json")
    encoders = encoders_of(about["model"])
    require_files_of(
        about["model"], about.get(ENCODER, ""), where=model_folder / "model.json"
    )
    if about["model"]["name"] != "bert":
        if not encoders:
            return None
        target = model_folder / FIXED
        target.mkdir(mode=0o700)
        for number, place in enumerate(copies_in(target, number=len(encoders))):
            _copy_public(
                encoders[number], place, moments=model_folder / moments_file(number)
            )
        return target
    from safetensors.torch import load_file

    from trainables.models.configs import BertConfig
    from trainables.models.nlu.bert_weights import save_encoder, source_of

    source = source_of(BertConfig.model_validate(about["model"]))
    state = load_file(str(model_folder / "weights.safetensors"))
    target = model_folder / FOLDER
    target.mkdir(mode=0o700)
    save_encoder(state, source.sizes, source.cutter, target)
    return target


def _copy_public(encoder: str, target: Path, *, moments: Path) -> None:
    """Copy the files of a public encoder and the moments that a trial computed for
    it.
    """
    target.mkdir(mode=0o700, exist_ok=True)
    for file in files_of(public_encoder(encoder).place):
        shutil.copyfile(file, target / file.name)
    if moments.is_file():
        shutil.move(moments, target / MOMENTS)
