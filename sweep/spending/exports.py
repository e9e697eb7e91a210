"""The exports of a home: which weights that can be an encoder were trained on which
records.

A line of the log has the digests of an export's tensors, its opaque id, and what it has
released about each data set: its own, and those of the exports that it started from.
Data sets have their names under the home's key, beside which are the keyed hashes of
their records, so that an encoder is compared with any data by records, not by names.
The log never leaves the home.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from sweep.spending.home_key import HomeKey
from sweep.store.chained_log import ChainedLog
from sweep.store.data_sets import TrainingData
from trainables.dp.accounting.releases import Release, Start
from trainables.errors import InvalidInput
from trainables.models.encoders.exported import folder_of, tensor_digests
from trainables.models.encoders.origin import is_export, origin_of

FILE = "ledger.exports.jsonl"  # under the sweeps' home
_ADVICE = (
    "restore the home's ledger.exports.jsonl and .head from a copy, or move both away"
    " and export again what is used as an encoder"
)


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """The `releases` of the export `source`, an id, about the records of a data set."""

    source: str
    dataset: str  # `HomeKey.name_of`
    releases: tuple[Release, ...]


@dataclass(frozen=True, kw_only=True)
class Export:
    """Exported weights with the opaque `id`; `tensors` are digests. `learnt` begins
    with its own training.
    """

    id: str
    tensors: tuple[str, ...]  # sorted
    learnt: tuple[Learnt, ...]


_EXPORT = TypeAdapter(Export)


class Exports:
    """The exports of the home `home`: what they were trained on, and what they have
    released. The log is read anew where it has grown. Not for several threads.

    Raises: InvalidData by every method, for a damaged log.
    """

    def __init__(self, home: Path) -> None:
        self._log = ChainedLog(home / FILE, _EXPORT, advice=_ADVICE)
        self._key = HomeKey(home / "ledger.key")
        self._known: list[Export] = []

    def keep(
        self,
        tensors: Iterable[str],
        *,
        dataset: str,
        releases: tuple[Release, ...],
        encoders: Iterable[str],
    ) -> str:
        """Write an export that was trained on `dataset` from `encoders`, and return its
        id, which is the earlier one where the same weights were exported before. It is
        on the disk then.
        """
        found = tuple(sorted(set(tensors)))
        with self._log.alone():
            before = [each for each in self._read() if each.tensors == found]
            name = before[-1].id if before else secrets.token_hex(16)
            own = Learnt(source=name, dataset=dataset, releases=releases)
            others = _last_of_each(
                each for name in encoders for each in self.matching(name)
            )
            export = Export(id=name, tensors=found, learnt=(own, *others))
            if export not in before:
                self._log.append(export)
                self._read()
        return name

    def matching(self, encoder: str) -> list[Export]:
        """The exports whose weights, or some of them, an encoder has, or whose id."""
        place, known = folder_of(encoder), self._read()
        if place is None or not known:
            return []
        origin, tensors = origin_of(place), set(tensor_digests(place).values())
        name = "" if origin is None else origin.id
        return [
            each
            for each in known
            if each.id == name or not tensors.isdisjoint(each.tensors)
        ]

    def starts(
        self,
        encoders: Iterable[str],
        open_data: Callable[[], TrainingData],
        *,
        is_private: bool,
    ) -> tuple[Start, ...]:
        """What a trial composes with: the exports among its encoders, and those that
        they started from, which were trained on records of its data set. That is opened
        where there is an export to compare with.

        Raises: InvalidInput for one without a finite epsilon, and on private data for
            an export of another home; InvalidData where the hashes of its records are
            lost.
        """
        found: dict[Learnt, Start] = {}
        for encoder in encoders:
            exports = self.matching(encoder)
            if is_private and not exports:
                _refuse_unknown(encoder)
            for part in _last_of_each(exports):
                data = open_data()
                if part in found or not self._key.shares(part.dataset, data.texts()):
                    continue
                if any(each.reasons for each in part.releases):
                    raise InvalidInput(
                        "expected model.encoder that has not learnt from the records"
                        f" of {data.name}, or with a finite epsilon, got {encoder}: it"
                        " was exported from a trial on them without a finite epsilon;"
                        " export one that was trained with noise, or name a public"
                        " encoder"
                    )
                found[part] = Start(source=part.source, releases=part.releases)
        return tuple(found.values())

    def _read(self) -> list[Export]:
        self._known += self._log.read_new()
        return self._known


def _last_of_each(exports: Iterable[Export]) -> list[Learnt]:
    """What they have learnt; of each source as it was written last, because costs only
    grow.
    """
    parts = (part for each in exports for part in each.learnt)
    return [*{(part.source, part.dataset): part for part in parts}.values()]


def _refuse_unknown(encoder: str) -> None:
    place = folder_of(encoder)
    if place is not None and is_export(place):
        raise InvalidInput(
            "expected model.encoder that is public or was exported from this home, got"
            f" {encoder}, an export that this home does not know: which records it was"
            " trained on is not known here; set SWEEP_HOME to the home that exported"
            " it, export it there again, or name a public encoder"
        )
