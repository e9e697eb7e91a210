"""Views of a record: its text with the values of its slots replaced by others from public lists.

A view is a function of the record, its number and public lists alone, so the sensitivity to one
record is unchanged. A value is replaced by one with as many words, so that a view has the record's
tags.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables import catalogue
from trainables.config import data_config
from trainables.data.bio import slots_strict
from trainables.data.corpus import Corpus
from trainables.data.records import LabelSchema
from trainables.errors import InvalidInput

Values = Mapping[tuple[str, int], tuple[tuple[str, ...], ...]]  # by kind and number of words
_UTTERANCES = 2_000  # of a made corpus, whose values are listed
_AT_ONCE = 10_000  # records whose texts are held


def kind_of(slot: str) -> str:
    """The kind of a slot's values, by its name.

    >>> kind_of("toloc.city_name"), kind_of("city"), kind_of("name")
    ('city', 'city', 'name')
    """
    return slot.rpartition(".")[2].removesuffix("_name")


def public_values(corpora: Sequence[str]) -> Values:
    """The values of generated corpora, each list sorted."""
    found: dict[tuple[str, int], set[tuple[str, ...]]] = {}
    for name in corpora:
        config = data_config(name=name, num_utterances=_UTTERANCES)
        for utterance in catalogue.entry("datasets", name).read(Path(), config=config):
            for slot, start, stop in slots_strict(utterance.tags):
                value = tuple(utterance.tokens[start:stop])
                found.setdefault((kind_of(slot), len(value)), set()).add(value)
    return {key: tuple(sorted(values)) for key, values in found.items()}


def swap_values(
    tokens: Sequence[str], tags: Sequence[str], values: Values, *, view: int
) -> tuple[str, ...]:
    """View number `view` (from 1) of a record, with every value that has a list replaced."""
    found = list(tokens)
    for number, (slot, start, stop) in enumerate(slots_strict(tags)):
        listed = values.get((kind_of(slot), stop - start), ())
        if listed:
            # An independent draw for each record, view and place, from public names.
            text = json.dumps([list(tokens), view, number]).encode()
            draw = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
            found[start:stop] = listed[draw % len(listed)]
    return tuple(found)


@dataclass(frozen=True, eq=False)
class ViewedCorpus:
    """A corpus' columns with other tokens (see `data.batches.Columns`)."""

    offsets: NDArray[np.int64]
    tokens: NDArray[np.int32]
    types: Sequence[str]
    intents: NDArray[np.int16]
    tags: NDArray[np.int16]


def view_of(corpus: Corpus, values: Values, *, view: int) -> ViewedCorpus:
    """View number `view` of every record."""
    places: dict[str, int] = {}
    tokens = np.empty(corpus.num_tokens, dtype=np.int32)
    for first in range(0, corpus.num_records, _AT_ONCE):
        ids = np.arange(first, min(first + _AT_ONCE, corpus.num_records), dtype=np.int64)
        texts = zip(corpus.token_sequences(ids), corpus.tag_sequences(ids), strict=True)
        for record, (words, tags) in zip(ids, texts, strict=True):
            seen = swap_values(words, tags, values, view=view)
            numbers = [places.setdefault(word, len(places)) for word in seen]
            tokens[corpus.offsets[record] : corpus.offsets[record + 1]] = numbers
    return ViewedCorpus(corpus.offsets, tokens, tuple(places), corpus.intents, corpus.tags)


def digest_of(values: Values, schema: LabelSchema) -> str:
    """SHA-256 of all that views depend on beside the content of a corpus of this schema."""
    listed = sorted([kind, number, found] for (kind, number), found in values.items())
    return hashlib.sha256(json.dumps([listed, schema.slots]).encode()).hexdigest()


def values_for(schema: LabelSchema, corpora: Sequence[str]) -> Values:
    """The values of generated corpora.

    Raises: InvalidInput where none is of a slot of the schema.
    """
    values = public_values(corpora)
    if not {kind_of(slot) for slot in schema.slots} & {kind for kind, _ in values}:
        raise InvalidInput(
            f"expected labels with a slot of the corpora {', '.join(corpora)} (model.view_corpora)"
            " with model.views > 1, got none"
        )
    return values
