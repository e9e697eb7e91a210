"""What an encoder that `sweep export` wrote says of itself: an opaque id, epsilon and
delta.

It has no hash of a record. The home that exported it decides what it has learned from
(see `encoders.exported`): this file may be edited or removed.
"""

import math
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from trainables.dp.accounting.rounding import format_delta, format_epsilon
from trainables.dp.accounting.summary import plain
from trainables.errors import InvalidData
from trainables.io.files import dump_json, read_written_json

ORIGIN = "export.json"
FOLDER = "transformers"  # of an export's model, with its encoder


class Origin(BaseModel):
    """The fields of `export.json`. `epsilon` is infinite where no finite one holds;
    `delta` is None where it follows from a number of records that is not declared.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    epsilon: float
    delta: float | None

    @property
    def guarantee(self) -> str:
        """In words, behind the name of the encoder."""
        if math.isinf(self.epsilon) or self.delta is None:
            return "without a finite epsilon"
        return f"of epsilon {format_epsilon(self.epsilon)} at delta {format_delta(self.delta)}"


def write_origin(place: Path, origin: Origin) -> None:
    """Write `export.json` into the folder `place` of an exported encoder, so that a
    later trial that starts from it can say under which epsilon and delta it was
    trained.
    """
    dump_json(place / ORIGIN, plain(origin.model_dump()), indent=1)


def origin_of(place: Path) -> Origin | None:
    """What the encoder in the folder `place` says of its export; None where there is no
    such file, or none that can be read.
    """
    try:
        return Origin.model_validate(read_written_json(place / ORIGIN))
    except (InvalidData, ValidationError):
        return None


def is_export(place: Path) -> bool:
    """Whether the encoder in `place` is an export by its file, or as a part of an
    export, which had no such file in earlier versions.
    """
    is_part = place.name == FOLDER and (place.parent / "model.json").is_file()
    return is_part or (place / ORIGIN).exists()
