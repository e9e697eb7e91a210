"""Label schemas: the labels of a corpus without opening its records.

A schema is a JSON object: `intents` and `slots` (lists of names, one of which may be
empty), `source` (where they come from), `tokenize` (how texts were cut, see
`tokenization`) and, for the shipped ones, `pool_size` and `train_size`: distinct
utterances of each file or folder and of its official training part, by its place under
the data directory.
"""

import json
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from trainables.data.records import NO_INTENT, LabelSchema, Utterance
from trainables.data.tokenization import TOKENIZATIONS
from trainables.errors import InvalidData, kind_of, quote
from trainables.io.files import read_json

_MAX_BYTES = 16 << 20  # of a schema: a hundred thousand labels of a hundred letters


def shipped_size(name: str, place: str, *, of: str = "pool_size") -> int | None:
    """Distinct utterances of a public corpus at its usual place, or those of its
    official training part (`train_size`); None where they are not known.
    """
    size: int | None = shipped(name).get(of, {}).get(place)
    return size


def read_schema(path: Path) -> LabelSchema:
    """The label schema in a user's own JSON file, which is public by declaration:
    whoever names it says that it does not depend on the private records.

    Raises: InvalidData naming data.schema_file, the file and what is wrong in it.
    """
    try:
        fields = read_json(path, max_bytes=_MAX_BYTES)
    except InvalidData as problem:
        raise InvalidData(f"data.schema_file: {problem}") from None
    return parse_schema(fields, str(path))


def schema_of(
    utterances: Iterable[Utterance], *, source: str, public: bool
) -> LabelSchema:
    """The labels that occur in `utterances`, sorted."""
    intents: set[str] = set()
    tags: set[str] = set()
    for utterance in utterances:
        intents.add(utterance.intent)
        tags.update(utterance.tags)
    slots = {tag[2:] for tag in tags if tag != "O"}
    return LabelSchema(
        tuple(sorted(intents)), tuple(sorted(slots)), source=source, public=public
    )


def to_json(schema: LabelSchema, **sizes: dict[str, int]) -> str:
    """The text of a schema file, which `read_schema` reads back. `sizes` are
    `pool_size` and `train_size`, numbers of distinct utterances by place under the data
    directory, for corpora that ship. Fields that are as usual are left out.
    """
    fields: dict[str, Any] = {"source": schema.source, **sizes}
    if schema.tokenize != "space":
        fields["tokenize"] = schema.tokenize
    intents = list(schema.intents) if schema.has_intents else []
    fields |= {"intents": intents, "slots": list(schema.slots)}
    return json.dumps(fields, indent=1, ensure_ascii=False) + "\n"


def shipped(name: str) -> dict[str, Any]:
    """The plain data of the schema that ships for a corpus; empty where none does."""
    file = resources.files("trainables.data.schemas").joinpath(f"{name}.json")
    fields: dict[str, Any] = (
        json.loads(file.read_text("utf-8")) if file.is_file() else {}
    )
    return fields


def parse_schema(fields: object, where: str) -> LabelSchema:
    """The label schema of plain data, with `where` it comes from for messages. Names
    must be distinct and not blank, and there must be an intent or a slot.

    Raises: InvalidData naming `where`, the field and what was expected.
    """
    if not isinstance(fields, dict):
        raise InvalidData(f"expected a JSON object in {where}, got {kind_of(fields)}")
    known = {"intents", "slots", "source", "tokenize", "pool_size", "train_size"}
    unknown = set(fields) - known
    if unknown:
        raise InvalidData(
            f"expected the fields intents, slots and source in {where}, got"
            f" {quote(min(unknown))}"
        )
    for field in ("intents", "slots"):
        names = fields.get(field)
        if not isinstance(names, list) or not all(
            isinstance(n, str) and n.strip() for n in names
        ):
            raise InvalidData(f"expected {field} in {where} to be a list of names")
        if len(set(names)) != len(names):
            raise InvalidData(f"expected {field} in {where} to name each label once")
    if not fields["intents"] and not fields["slots"]:
        raise InvalidData(
            f"expected at least one of intents or slots in {where}, got none"
        )
    source = fields.get("source", "declared by the user")
    if not isinstance(source, str):
        raise InvalidData(f"expected source in {where} to be a text")
    intents = tuple(fields["intents"]) or (NO_INTENT,)
    tokenize = fields.get("tokenize", "space")
    if tokenize not in TOKENIZATIONS:
        raise InvalidData(
            f"expected tokenize in {where} to be {' or '.join(TOKENIZATIONS)}"
        )
    return LabelSchema(
        intents, tuple(fields["slots"]), source=source, tokenize=tokenize
    )
