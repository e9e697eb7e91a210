"""The starting space of `sweep init`: commented YAML for editing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template

from sweep.planning import own_data
from trainables.formats import argument

LEAST_BATCH = 2  # a record for each worker of the template's eDP-SGD, which divide a batch
_TEMPLATE = "space.yaml.template"


@dataclass(frozen=True, kw_only=True)
class Start:
    """The values of a starting space."""

    name: str
    file: Path
    utterances: Path
    schema: Path
    num_records: int
    epsilon: float


def text_of(start: Start) -> str:
    """The YAML text."""
    template = resources.files(own_data).joinpath(_TEMPLATE).read_text("utf-8")
    return Template(template).substitute(
        name=start.name,
        file=" ".join(argument(start.file).split()),
        path=json.dumps(str(start.utterances.absolute()), ensure_ascii=False),
        schema=json.dumps(str(start.schema.absolute()), ensure_ascii=False),
        num_records=start.num_records,
        epsilon=repr(start.epsilon).removesuffix(".0"),  # rounded, it may exceed what was asked
        batch=min(64, max(LEAST_BATCH, start.num_records // 16 * LEAST_BATCH)),
    )
