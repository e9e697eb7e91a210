"""Parsers that a sweep trains once: one for private utterances, and one for measuring."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from trainables.data.corpus import make_once
from trainables.data.pairs import PairCorpus
from trainables.tasks.parsing import Parser, ParserSettings, load_parser, train_parser

_FILE = "programs.json"


def parser_of(pairs: PairCorpus, *, epochs: int, seed: int, cache_dir: Path) -> Parser:
    """A parser trained on `pairs`, kept in `cache_dir`.

    Raises: InvalidInput where pairs lack programs.
    """
    settings = ParserSettings(epochs=epochs)
    name = _name("parser", pairs.fingerprint, repr(settings), str(seed))
    folder = make_once(
        cache_dir, name, lambda place: train_parser(pairs, settings=settings, seed=seed).save(place)
    )
    return load_parser(folder)


def programs_of(parser: Parser, utterances: Sequence[str], *, cache_dir: Path) -> tuple[str, ...]:
    """The programs of `utterances` by a parser, kept in `cache_dir`, readable by its owner only."""
    name = _name("programs", _digest(parser), repr(parser.settings), *utterances)

    def make(folder: Path) -> None:
        found = parser.parse(utterances)
        (folder / _FILE).write_text(json.dumps(found), encoding="utf-8")

    folder = make_once(cache_dir, name, make)
    return tuple(json.loads((folder / _FILE).read_text(encoding="utf-8")))


def _digest(parser: Parser) -> str:
    """Digest of the weights and the vocabulary, which determine a parser's output."""
    digest = hashlib.sha256(repr(parser.vocabulary).encode())
    for name, tensor in sorted(parser.model.state_dict().items()):
        digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _name(kind: str, *parts: str) -> str:
    return f"{kind}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"
