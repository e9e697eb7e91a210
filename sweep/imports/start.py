"""`sweep init`: from a file of utterances to a folder for `sweep run`."""

import json
import math
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from search_spaces.files import name_of
from sweep import imports
from sweep.imports.corpus import cut_of, write_corpus
from sweep.imports.inspection import FEW, Inspection, read_as, reading, unread
from trainables import formats
from trainables.config.mechanism import default_delta
from trainables.config.sections import HASH_PERCENT
from trainables.data.formats import Source
from trainables.data.records import LabelSchema
from trainables.data.schema import to_json
from trainables.data.sizes import require_near, rounded_size
from trainables.data.storage import PARTS
from trainables.dp.accounting.gaussian import gaussian_epsilon
from trainables.dp.accounting.privacy_semantics import nearest_gaussian_mu
from trainables.dp.engines.configs import Covers
from trainables.errors import InvalidInput
from trainables.formats import argument

# below, an error of 20 % has a 95 % interval of 8 points to either side, or more
_SMALL = 100
LEAST_BATCH = (
    2  # a record for each worker of the template's eDP-SGD, which divide a batch
)
_PRIVATE = 2  # private trials of the template
UTTERANCES, SCHEMA, SPACE = "utterances.jsonl", "schema.json", "space.yaml"
_TEMPLATES: dict[Covers, str] = {
    "training": "space.yaml.template",
    "all": "space_covers_all.yaml.template",
}


@dataclass(frozen=True, kw_only=True)
class StartResult:
    """The result of `start`, with its facts and sentences."""

    folder: Path
    source: Source
    counted: Inspection
    schema: LabelSchema
    num_records: int
    least: int | None  # records of a label of the schema; None: it was given
    covers: Covers = "training"

    def facts(self) -> dict[str, Any]:
        """Counts and names of fields as plain data."""
        survey, schema = self.source.survey, self.schema
        return {
            "folder": str(self.folder),
            **read_as(self.source),
            "num_duplicates": self.counted.num_duplicates,
            "num_invalid": self.counted.num_problems,
            "num_outside_schema": self.counted.outside(schema).total(),
            "parts": {part: self.counted.parts[part] for part in PARTS},
            "parts_because": cut_of(self.source),
            "num_intents": len(schema.intents) if schema.has_intents else 0,
            "num_slots": len(schema.slots),
            "num_rare_labels": self.counted.num_rare,
            "num_labels_left_out": self.counted.num_rare if self.least == FEW else 0,
            "num_records_declared": self.num_records,
            "grouped": survey.with_group > 0,
        }

    def sentences(self) -> Iterator[str]:
        """The facts in sentences, with advice."""
        facts = self.facts()
        corpus, schema = (argument(self.folder / name) for name in (UTTERANCES, SCHEMA))
        parts = ", ".join(f"{count} {part}" for part, count in facts["parts"].items())
        yield from reading(self.source)
        if facts["num_duplicates"]:
            yield (
                f"Repeated texts ({facts['num_duplicates']}) stay in {UTTERANCES}; a"
                " trial uses the first of equal ones."
            )
        if self.covers == "all":
            shares = ":".join(map(str, HASH_PERCENT))
            yield (
                f"Parts: {shares} by a hash of each record (data.split hash), so that"
                " epsilon covers every record of the file; parts in the file are not"
                " read."
            )
        else:
            yield f"Parts: {parts} ({facts['parts_because']})."
        yield (
            "Declared public: the label names in"
            f" {self.folder / SCHEMA}{', read from the records' if self.least else ''},"
            f" and the number of training records, about {self.num_records}"
            " (data.num_records). Exports show both, and no epsilon covers them: remove"
            " a label, or round the number, if it would reveal something about one"
            " record."
        )
        if facts["num_invalid"]:
            yield f"Invalid records left out: {facts['num_invalid']}."
        if small := [
            part for part in ("validation", "test") if facts["parts"][part] < _SMALL
        ]:
            yield (
                f"Parts with fewer than {_SMALL} different texts ({', '.join(small)})"
                " measure errors with wide intervals."
            )
        if facts["num_outside_schema"]:
            yield (
                "Records with a label that the schema lacks are kept but not used for"
                " training, and are errors of every model in validation and test"
                f" ({facts['num_outside_schema']}; `sweep data check {corpus} --schema"
                f" {schema}`)."
            )
        if facts["num_labels_left_out"]:
            yield (
                f"Labels with fewer than {FEW} records are left out of the schema,"
                f" because their"
                f" names reveal something about them ({facts['num_labels_left_out']} of"
                f" {self.counted.num_labels}; --keep-rare-labels keeps them)."
            )
        elif facts["num_rare_labels"]:
            yield (
                f"Labels with fewer than {FEW} records reveal something about them by"
                f" their names ({facts['num_rare_labels']} of"
                f" {self.counted.num_labels}; `sweep data describe {corpus}`)."
            )
        if facts["grouped"]:
            yield (
                "Records have groups: with privacy.unit=group the guarantee is"
                " user-level: it holds for all records of a group, such as a user (in"
                " one part, unless the file says otherwise), and data.num_records"
                " counts groups."
            )


def start(
    source: Source,
    folder: Path,
    *,
    epsilon: float,
    num_records: int | None,
    skip_invalid: bool,
    schema: LabelSchema | None = None,
    least: int = FEW,
    covers: Covers = "training",
) -> StartResult:
    """Write corpus, schema and space into a new folder, atomically. The labels are
    those of a `schema`, or those of at least `least` records. With `covers` all the
    space's epsilon is about every record, whose parts are by hash.

    Raises: InvalidInput where the folder exists, records cannot be read, or there are
    too few.
    """
    if folder.exists():
        raise InvalidInput(f"expected a new folder in --to, got {folder}, which exists")
    if not folder.parent.is_dir():
        raise InvalidInput(f"expected --to in a folder that exists, got {folder}")
    given = least if schema is None else None
    with tempfile.TemporaryDirectory(
        prefix=f".{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True
    ) as made:
        partial = Path(made)
        counted = write_corpus(source, partial / UTTERANCES, skip_invalid=skip_invalid)
        _require_labels(counted, source)
        schema = replace(
            schema or counted.schema(source=_source(least), least=least),
            tokenize=source.options.tokenize,
        )
        num_training = _require_enough(counted, source, schema, least=given)
        if covers == "all":
            known = counted.parts.total() - counted.outside(schema).total()
            num_training = max(LEAST_BATCH, known * HASH_PERCENT[0] // 100)
        (partial / SCHEMA).write_text(to_json(schema), encoding="utf-8")
        declared = num_records or rounded_size(num_training)
        if not source.survey.with_group:  # with groups, it may be their number
            require_near(declared, num_training, by_group=False)
        space = _space_text(folder, covers, num_records=declared, epsilon=epsilon)
        (partial / SPACE).write_text(space, encoding="utf-8")
        os.replace(partial, folder)
    return StartResult(
        folder=folder,
        source=source,
        counted=counted,
        schema=schema,
        num_records=declared,
        least=given,
        covers=covers,
    )


def _space_text(
    folder: Path, covers: Covers, *, num_records: int, epsilon: float
) -> str:
    """The starting space, commented YAML for editing. `epsilon` is that of its private
    trials together.
    """
    template = resources.files(imports).joinpath(_TEMPLATES[covers]).read_text("utf-8")
    return Template(template).substitute(
        name=name_of(folder.name),
        file=" ".join(argument(folder / SPACE).split()),
        path=json.dumps(str((folder / UTTERANCES).absolute()), ensure_ascii=False),
        schema=json.dumps(str((folder / SCHEMA).absolute()), ensure_ascii=False),
        num_records=num_records,
        epsilon=repr(epsilon).removesuffix(
            ".0"
        ),  # rounded, it may exceed what was asked
        target=_target(epsilon, delta=default_delta(num_records)),
        batch=min(64, max(LEAST_BATCH, num_records // 16 * LEAST_BATCH)),
    )


def _target(epsilon: float, *, delta: float) -> float:
    """The epsilon of each of the template's private trials, rounded down, whose
    composition is at most `epsilon`: that of Gaussian mechanisms of equal noise. The
    heads are one; a sampled trial of the same epsilon composes to a little less.
    """
    mu = nearest_gaussian_mu(epsilon, delta=delta)
    alone = gaussian_epsilon(mu / math.sqrt(_PRIVATE), delta)
    return float(Context(prec=3, rounding=ROUND_FLOOR).create_decimal(alone))


def _require_labels(counted: Inspection, source: Source) -> None:
    """Raises: InvalidInput where no record has an intent or a slot, so that nothing is
    learnt.
    """
    if not counted.num_labels:
        looks = source.survey.overlooked.values()
        options = " ".join(each.argument for each in looks)
        hint = (
            f"try {options}" if options else "--intent, --tags and --slots name fields"
        )
        raise InvalidInput(
            f"expected records with an intent or slots in {source.path}, got"
            f" none{unread(source)} ({hint})"
        )


def _require_enough(
    counted: Inspection, source: Source, schema: LabelSchema, *, least: int | None
) -> int:
    """The number of records that a model can be trained on.

    Raises: InvalidInput where a trial of the starting space would have too few records.
    """
    there = counted.parts - Counter({"train": counted.outside(schema)["train"]})
    if there["train"] < LEAST_BATCH or not all(there[part] for part in PARTS):
        shown = ", ".join(f"{there[part]} {part}" for part in PARTS)
        rare = ""
        if least == FEW and counted.num_rare:
            rare = (
                f"; {formats.count(counted.num_rare, 'label')} with fewer than {FEW}"
                " records left out, which --keep-rare-labels keeps"
            )
        raise InvalidInput(
            f"expected at least {LEAST_BATCH} records that train, one of validation and"
            f" one of test in {source.path}, got {shown} ({cut_of(source)}{rare})"
        )
    return there["train"]


def _source(least: int) -> str:
    """Where the labels of at least so many records came from, as the privacy card
    quotes it.
    """
    some = f" (labels of {least} records or more)" if least > 1 else ""
    return f"read from the private records by sweep init{some} and declared public by their owner"
