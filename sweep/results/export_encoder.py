"""The encoder of an exported model: a BERT with its tokenizer in the format of `transformers`;
the fixed encoder of `features` as its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from trainables.encoders.identity import (
    ENCODER,
    copies_in,
    encoders_of,
    moments_file,
    require_files_of,
)
from trainables.files import read_written_json

FOLDER = "transformers"
FIXED = "encoder"


def write_encoder(model_folder: Path) -> Path | None:
    """Write `model_folder`/transformers, from which `BertModel.from_pretrained` loads the encoder
    (without its pooler), or `model_folder`/encoder, the public encoders that heads read or the one
    that a clc starts from; None for other models.

    Our heads (intent, tags, CRF) stay in weights.safetensors, which `sweep.load_model` reads.

    Raises: InvalidInput where the encoder, or a file of word vectors, is another than the one that
        `model.json` names.
    """
    about = read_written_json(model_folder / "model.json")
    encoders = encoders_of(about["model"])
    require_files_of(about["model"], about.get(ENCODER, ""), where=model_folder / "model.json")
    if about["model"]["name"] != "bert":
        if not encoders:
            return None
        target = model_folder / FIXED
        target.mkdir(mode=0o700)
        for number, place in enumerate(copies_in(target, number=len(encoders))):
            _copy_public(encoders[number], place, moments=model_folder / moments_file(number))
        return target
    from safetensors.torch import load_file, save_file

    from trainables.models._bert_weights import source_of, to_transformers, transformers_config
    from trainables.models._lora import merge
    from trainables.models.bert import Config

    config = Config.model_validate(about["model"])
    source = source_of(config)
    sizes = source.sizes
    state = load_file(str(model_folder / "weights.safetensors"))
    state = merge(state, scale=config.lora_alpha / config.lora_rank)
    target = model_folder / FOLDER
    target.mkdir(mode=0o700)
    transformers_config(sizes).save_pretrained(target)
    tensors = {
        name: tensor.contiguous().clone()
        for name, tensor in to_transformers(state, sizes.layers).items()
    }
    save_file(tensors, str(target / "model.safetensors"), metadata={"format": "pt"})
    if source.tokenizer is None:
        return target
    source.tokenizer.save_pretrained(target)
    return target


def _copy_public(encoder: str, target: Path, *, moments: Path) -> None:
    """Copy the files of a public encoder, without other files in its folder. Moments that a trial
    computed for an encoder of another project are added."""
    from trainables.encoders import hub
    from trainables.encoders.about import MOMENTS, about_of, write_about
    from trainables.encoders.source import FILES, with_words

    about = about_of(encoder)
    if about is not None:
        files = [about.place / name for name in FILES if (about.place / name).is_file()]
    else:
        files = hub.files_of(hub.public_encoder(encoder).place)
    target.mkdir(mode=0o700, exist_ok=True)
    for file in files:
        shutil.copyfile(file, target / file.name)
    if about is not None:
        model = with_words(about.model, about.place, target)
        write_about(target, model=model, card=about.card, layers=about.layers)
    if moments.is_file():
        shutil.move(moments, target / MOMENTS)
