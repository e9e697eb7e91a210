"""The parts of tags in a label schema, and the transitions that BIO allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainables.data.records import LabelSchema

_OWN = 0.5  # weight of a tag's separate row relative to the shared ones
_NEVER = -1e4  # score of a transition that BIO does not allow


def tag_parts(schema: LabelSchema, *, factored: bool) -> NDArray[np.float32]:
    """[tags, parts]: the weight of each part's row in a tag's weights; rows have norm 1.

    Factored: one row for `B` and for `I`, for the type (the last part of a name, `city_name`), for
    the role (the part before it, `toloc`, or none), and half a row for the tag alone. Names are
    public. A rare tag is then learnt from frequent parts. Plain: a separate row for each tag.

    >>> schema = LabelSchema(intents=("a",), slots=("to.city", "from.city"), source="doc")
    >>> tag_parts(schema, factored=False).shape, tag_parts(schema, factored=True).shape
    ((5, 5), (5, 10))
    """
    tags = schema.tags
    if not factored:
        return np.eye(len(tags), dtype=np.float32)
    places: dict[tuple[str, str], int] = {}
    cells: list[tuple[int, int, float]] = []
    for row, tag in enumerate(tags):
        for part, weight in _parts(tag):
            cells.append((row, places.setdefault(part, len(places)), weight))
    found = np.zeros((len(tags), len(places)), dtype=np.float32)
    for row, column, weight in cells:
        found[row, column] = weight
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found / norms, dtype=np.float32)


def _parts(tag: str) -> list[tuple[tuple[str, str], float]]:
    if tag == "O":
        return [(("tag", tag), 1.0)]
    mark, name = tag.split("-", 1)
    role, _, kind = name.rpartition(".")
    shared = [("mark", mark), ("type", kind), ("role", role)]
    return [*((part, 1.0) for part in shared), (("tag", tag), _OWN)]


def bio_scores(schema: LabelSchema) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Start scores [tags] and transition scores [from, to]: 0, or forbidding where I- of a slot
    follows neither B- nor I- of it."""
    tags = schema.tags
    allowed = np.array([[b[0] != "I" or (a != "O" and a[2:] == b[2:]) for b in tags] for a in tags])
    first = np.array([tag[0] != "I" for tag in tags])
    return (
        np.where(first, 0.0, _NEVER).astype(np.float32),
        np.where(allowed, 0.0, _NEVER).astype(np.float32),
    )
