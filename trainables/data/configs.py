"""Fields shared by data sets: files of utterances with frames, made utterances, files
of pairs.
"""

from typing import Annotated

from pydantic import Field

from trainables.config.sections import DataConfig, Seed
from trainables.errors import InvalidInput
from trainables.fields import MAX_ROWS


class FromFiles(DataConfig):
    """Records in files."""

    path: str | None = None
    """file or folder; default: the data set's folder under $SWEEP_DATA_DIR"""


def path_of(config: DataConfig) -> str | None:
    """The file or folder that a config names; None where it names none."""
    return config.path if isinstance(config, FromFiles) else None


def refuse_too_many(wanted: int, found: int, *, public: bool) -> None:
    """Refuse `max_records` above the number of records. Raises: InvalidInput; of
    private records without their number, because plans and reports keep the message.
    """
    if wanted > found:
        known = f" ({found})" if public else ""
        raise InvalidInput(
            f"expected data.max_records to be at most the number of records{known}, got"
            f" {wanted}"
        )


class FramesConfig(DataConfig):
    """Utterances with an intent and slots."""

    schema_file: str | None = None
    """public label schema (JSON); default: the one shipped for the corpus"""


class FrameFiles(FromFiles, FramesConfig):
    """Utterances with frames in files."""


class MadeFrames(FramesConfig):
    """Utterances that a grammar makes."""

    num_utterances: Annotated[int, Field(ge=1_000, le=MAX_ROWS)] | None = None
    """number of generated utterances; default: 10,000"""
    seed: Seed = 0
    """seed of the grammar's choices"""
    spelling_noise: Annotated[float, Field(ge=0, le=1)] = 0.0
    """share of words of three letters or more that are misspelt"""
    label_noise: Annotated[float, Field(ge=0, le=1)] = 0.0
    """share of intents, and of slots, that have another's label"""


class PairFiles(FromFiles):
    """Pairs of an utterance and its program in files."""
