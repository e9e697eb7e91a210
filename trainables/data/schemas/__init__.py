"""Public label schemas: what may be known of a corpus without opening it.

The JSON files beside this one ship with the package (the union of the labels over all files of a
public corpus). A user of private records writes such a file from what is public in that house:

    {"source": "annotation guide, 2026", "intents": ["book", "cancel"], "slots": ["name", "date"],
     "num_utterances": 20000}

`num_utterances` (the distinct utterances of the pool) and `parts` (the same by part of the official
split: train, validation, test) may be left out.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trainables import catalogue
from trainables.config import DataConfig, first_problem
from trainables.data.records import LabelSchema
from trainables.errors import InvalidData, InvalidInput

DEFAULT_MADE_UTTERANCES = 10_000


class Schema(BaseModel):
    """A schema file. `intents` and `slots` are distinct and non-empty names without spaces."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    intents: tuple[str, ...] = Field(min_length=1)
    slots: tuple[str, ...] = ()
    num_utterances: int | None = Field(None, ge=1)
    parts: dict[str, int] | None = None

    @model_validator(mode="after")
    def _names(self) -> Schema:
        for field, values in (("intents", self.intents), ("slots", self.slots)):
            if len(set(values)) != len(values):
                raise ValueError(f"expected {field} to be distinct names")
            if any(not name or name.split() != [name] for name in values):
                raise ValueError(f"expected {field} to be names without spaces")
        return self

    def labels(self, *, public: bool = True) -> LabelSchema:
        """The label sets alone."""
        return LabelSchema(
            intents=self.intents, slots=self.slots, source=self.source, public=public
        )


@cache
def shipped(name: str) -> Schema:
    """The schema that the project ships under this name, for example "atis"."""
    return read_file(Path(__file__).with_name(f"{name}.json"))


def read_file(path: Path) -> Schema:
    """The schema in a JSON file.

    Raises: InvalidData naming the file and the field that is wrong.
    """
    try:
        return Schema.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise InvalidData(f"expected a schema file at {path}, found none") from None
    except OSError as error:
        raise InvalidData(f"expected a readable schema file at {path}: {error.strerror}") from None
    except ValidationError as error:
        raise InvalidData(f"{path}: {first_problem(error)}") from None
    except ValueError:
        raise InvalidData(f"expected a JSON object in UTF-8 in {path}") from None


def declared(config: DataConfig) -> Schema | None:
    """The public schema of a config without opening its data; None where there is none.

    The user's `schema_file` comes before the shipped one. A made corpus has what its grammar says.
    """
    if config.schema_file is not None:
        return read_file(Path(config.schema_file))
    found: Schema | None = catalogue.entry("datasets", config.name).declared(config)
    return found


def declared_pool_size(config: DataConfig) -> int | None:
    """Distinct utterances that a config draws its parts from, without opening the data.

    None where nothing public tells; then `open_corpus` tells, and the number counts as read from
    the records. With `data.num_records` that number is returned: it is the training part's size
    itself, and `split.training_size` returns it unchanged.
    """
    if config.num_records is not None:
        return config.num_records
    schema = declared(config)
    size = None if schema is None else schema.num_utterances
    if size is None or config.max_records is None:
        return size
    return min(size, config.max_records)


def made_size(config: DataConfig) -> int:
    """Utterances of a made corpus: `num_utterances`, or 10,000."""
    return config.num_utterances or DEFAULT_MADE_UTTERANCES


def refuse_made_fields(config: DataConfig) -> None:
    """Raises: InvalidInput where a corpus that is read is told how to be made."""
    if config.num_utterances is not None:
        raise InvalidInput(
            "expected data.num_utterances only with a made corpus (communication, health, video),"
            f" got it with {config.name} (data.max_records takes fewer of its records)"
        )
