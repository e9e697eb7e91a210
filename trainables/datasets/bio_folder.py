"""A user's own corpus in the form `seq.in` / `seq.out` / `label`, in one folder or one a part."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from trainables.data import configs as data_configs
from trainables.data.records import LabelSchema
from trainables.data.schema import schema_of
from trainables.datasets._bio_set import files as files
from trainables.datasets._bio_set import read

PUBLIC = False


class Config(data_configs.FrameFiles):
    """The fields of `data` with `name: bio_folder`."""

    name: Literal["bio_folder"] = "bio_folder"


def default_path() -> str:
    """Place under the data directory; usually `data.path` names another."""
    return "bio_folder"


def schema(path: Path, *, config: Config) -> LabelSchema:
    """The labels found in the private records: a release that no epsilon covers."""
    return schema_of(read(path, config=config), source=f"read from {path}", public=False)


def pool_size(config: Config) -> int | None:
    """Not known without counting private records."""
    return None
