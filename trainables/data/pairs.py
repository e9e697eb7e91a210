"""Corpora of (utterance, program) pairs, in memory, for parsers and text generators.

A record is one pair. Unlike utterances with frames (`corpus`), pairs are tens of
thousands at most and are read whole.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

from trainables import catalogue
from trainables.config.sections import DataConfig
from trainables.data.configs import FromFiles, refuse_too_many
from trainables.data.corpus import data_path
from trainables.data.records import PART_NAMES, Part
from trainables.data.storage import PARTS, normalise
from trainables.dp.seeding import generator
from trainables.errors import InvalidData, InvalidInput
from trainables.io.files import object_lines, without_problems
from trainables.parse.graph import graph
from trainables.parse.lispress import LispressError

OFFICIAL = (".dataflow_dialogues.jsonl.zip", ".dataflow_dialogues.jsonl")
PAIRS = (".jsonl.gz", ".jsonl")
_LEAST_UNPACKED = 1 << 24  # bytes that any packed file may hold
_MAX_RATIO = 100  # of more bytes; text is packed to a twentieth


@dataclass(frozen=True, slots=True)
class Pair:
    """One record: an utterance of at least one token, and its program ("" where
    unknown).
    """

    utterance: str
    program: str
    dialogue: str
    part: Part = "train"
    domain: str | None = None


@dataclass(frozen=True)
class PairCorpus:
    """Pairs of an utterance and its program, in memory, in the order of their files;
    `public` says whether they are published. Columns (`utterances`, `programs`,
    `parts`, `domains`) have one value a record. Equal pairs in equal order have equal
    `fingerprint`s.
    """

    name: str
    pairs: tuple[Pair, ...] = field(repr=False)
    public: bool

    def __len__(self) -> int:
        return len(self.pairs)

    @cached_property
    def utterances(self) -> tuple[str, ...]:
        """The utterance of each record."""
        return tuple(pair.utterance for pair in self.pairs)

    @cached_property
    def programs(self) -> tuple[str, ...]:
        """The program of each record, "" where it is unknown."""
        return tuple(pair.program for pair in self.pairs)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The part of each record."""
        return tuple(pair.part for pair in self.pairs)

    @cached_property
    def domains(self) -> tuple[str | None, ...]:
        """The domain of each record, None where it has none."""
        return tuple(pair.domain for pair in self.pairs)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the records in their order, 64 hex digits."""
        digest = hashlib.sha256()
        for pair in self.pairs:
            digest.update(json.dumps(astuple(pair)).encode() + b"\n")
        return digest.hexdigest()

    @property
    def has_programs(self) -> bool:
        """Whether every utterance has its program."""
        return all(self.programs)

    def texts(self) -> Iterator[bytes]:
        """Each utterance as a text, equal for equal records of two data sets."""
        for utterance in self.utterances:
            yield normalise(utterance.split()).encode()

    def select(self, ids: Iterable[int]) -> PairCorpus:
        """The records `ids`, in that order."""
        return replace(self, pairs=tuple(self.pairs[i] for i in ids))


def open_pairs(config: DataConfig, *, data_dir: Path) -> PairCorpus:
    """The pairs of a config; with `max_records` a subset drawn by `split_seed`.

    Raises: InvalidInput for a corpus of another kind or more records than there are;
    InvalidData for a file that is missing or damaged.
    """
    catalogue.entry("datasets", config.name, kind="pairs")  # raises for another kind
    pairs = tuple(config.read(data_path(config, data_dir=data_dir)))
    if not pairs:
        raise InvalidInput(f"expected at least one pair in {config.name}, got none")
    found = PairCorpus(config.name, pairs, config.is_public)
    wanted = config.max_records
    if wanted is None or wanted == len(found):
        return found
    refuse_too_many(wanted, len(found), public=config.is_public)
    order = generator(config.split_seed, "subset").permutation(len(found))
    return found.select(sorted(order[:wanted].tolist()))


def pair_files(path: Path) -> tuple[Path, ...]:
    """The files that hold the pairs in `path`, a file or a folder.

    In a folder each part is read from its official dialogues where they exist, and
    otherwise from the pair files, whose names contain the part's
    (`pairs_valid.jsonl.gz`).

    Raises: InvalidData where there is none.
    """
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise InvalidData(
            f"expected dialogues or pairs in {path}, got nothing there"
            " (see data.path, SWEEP_DATA_DIR)"
        )
    found: list[Path] = []
    entries = sorted(path.iterdir())
    for part in PARTS:
        here = [file for file in entries if file.is_file() and part_of(file) == part]
        official = [file for file in here if file.name.endswith(OFFICIAL)]
        # The same dialogues packed and unpacked are one file.
        found += official[-1:] or [file for file in here if file.name.endswith(PAIRS)]
    if not found:
        raise InvalidData(
            f"expected files named *{OFFICIAL[0]} or *{PAIRS[0]} with train, valid, dev"
            f" or test in their name in {path}, got none"
        )
    return tuple(found)


def part_of(file: Path) -> Part | None:
    """The part that a file's name contains as a word (`test`, `testset`); None where it
    has none.

    >>> part_of(Path("valid.dataflow_dialogues.jsonl.zip")), part_of(Path("latest_device.jsonl"))
    ('validation', None)
    """
    words = [
        word.removesuffix("set") for word in re.split("[^a-z]+", file.name.lower())
    ]
    return next((part for name, part in PART_NAMES.items() if name in words), None)


def read_pairs(
    path: Path, *, domain_of: Callable[[str, str], str | None] | None = None
) -> Iterator[Pair]:
    """The pairs of one file: official dialogues or pairs, plain or packed, by its
    content.

    Official dialogues give every user turn, skipped ones too, as the paper counts them.
    `domain` and `part` are optional fields of a pair; a part in the file's name is the
    default, and so is the domain that `domain_of(program, what the agent said before)`
    gives.

    Raises: InvalidData with file and line for what cannot be read, for an utterance
    without a token and for a program that does not read; never with the text itself.
    """
    part = part_of(path) or "train"
    checked = {""}  # half of the programs of a corpus occur more than once
    for where, fields in read_objects(path):
        pair = _pair(fields, part, where)
        if pair.program not in checked:
            try:
                graph(pair.program)  # of all that metrics and parsers will read
            except LispressError as error:
                raise InvalidData(f"lispress in {where}: {error}") from None
            checked.add(pair.program)
        if pair.domain is None and domain_of is not None:
            pair = replace(
                pair, domain=domain_of(pair.program, str(fields.get("prev_agent")))
            )
        yield pair


class PairFiles(FromFiles):
    """The base of data sets of pairs of an utterance and its program in files. A
    subclass states its `place`, and whether it is public; one whose files lack domains
    overrides `domain_of`.
    """

    kind = "pairs"

    @staticmethod
    def domain_of(program: str, agent: str) -> str | None:
        """The domain of a pair whose file names none, from its program and what the
        agent said before; by default unknown.
        """
        return None

    def files(self, path: Path) -> tuple[Path, ...]:
        """As `pair_files`."""
        return pair_files(path)

    def read(self, path: Path) -> Iterator[Pair]:
        """All available parts, in the order of the files. Raises: InvalidData, see
        `read_pairs`.
        """
        for file in pair_files(path):
            yield from read_pairs(file, domain_of=self.domain_of)


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and unchecked fields of each record; a dialogue gives its user turns.

    Raises: InvalidData for what cannot be read, is no JSON object or no dialogue, or is
    empty.
    """
    count = 0
    for where, fields in without_problems(object_lines(path, opened=_open)):
        for record in _turns(fields, where) if "turns" in fields else (fields,):
            yield where, record
            count += 1
    if not count:
        raise InvalidData(f"expected records in {path}, got an empty file")


def _turns(fields: dict[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """The turns of a dialogue, as the fields of a pair."""
    turns, before = fields["turns"], ""
    if not isinstance(turns, list):
        raise InvalidData(f"expected turns to be a list in {where}")
    for turn in turns:
        try:
            yield {
                "utterance": " ".join(turn["user_utterance"]["tokens"]),
                "lispress": turn["lispress"],
                "dialogue_id": fields.get("dialogue_id", ""),
                "prev_agent": before,
            }
            before = " ".join((turn.get("agent_utterance") or {}).get("tokens", ()))
        except (AttributeError, KeyError, TypeError):
            raise InvalidData(
                f"expected turns with user_utterance.tokens and lispress in {where}"
            ) from None


def _pair(fields: dict[str, Any], part: Part, where: str) -> Pair:
    utterance, program = fields.get("utterance"), fields.get("lispress", "")
    if not isinstance(utterance, str) or not utterance.split():
        raise InvalidData(
            f"expected utterance to be a text with at least one token in {where}"
        )
    if not isinstance(program, str):
        raise InvalidData(f"expected lispress to be a text in {where}")
    domain = fields.get("domain")
    if domain is not None and (not isinstance(domain, str) or not domain.strip()):
        raise InvalidData(f"expected domain to be a name in {where}")
    given = fields.get("part", part)
    if given not in PARTS:
        raise InvalidData(f"expected part in {where} to be one of {', '.join(PARTS)}")
    dialogue = fields.get("dialogue_id", "")
    if not isinstance(dialogue, str) and type(dialogue) is not int:
        raise InvalidData(f"expected dialogue_id in {where} to be a text or an integer")
    return Pair(utterance, program, str(dialogue), given, domain)


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a plain, gzip or zip file (its only member)."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
            if len(members) != 1 or members[0].flag_bits & 1:
                raise InvalidData(
                    f"expected one file without a password in {path}, got"
                    f" {len(members)} files"
                )
            with archive.open(members[0]) as file:
                yield cast("IO[bytes]", _Unpacked(file, path))
        return
    with path.open("rb") as start:
        packed = start.read(2) == b"\x1f\x8b"
    if packed:
        with gzip.open(path, "rb") as file:
            yield cast("IO[bytes]", _Unpacked(file, path))
        return
    with path.open("rb") as plain:
        yield plain


class _Unpacked:
    """The content of a packed file, up to what a file of text may hold: its bytes are
    bounded by the size of the packed one.
    """

    def __init__(self, file: Any, path: Path) -> None:
        self._file, self._path = file, path
        self._left = max(_LEAST_UNPACKED, _MAX_RATIO * path.stat().st_size)

    def read(self, size: int) -> bytes:
        """At most `size` next bytes. Raises: InvalidData where they exceed the
        bound.
        """
        content: bytes = self._file.read1(size)
        self._left -= len(content)
        if self._left < 0:
            raise InvalidData(
                f"expected a packed file of text, at most {_MAX_RATIO} times its size"
                f" unpacked, in {self._path}, got more"
            )
        return content
