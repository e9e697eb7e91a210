"""Incremental composition of releases on the same records, whose cost grows with the number of
distinct noise levels instead of the number of releases. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from sweep.spending.entries import Entry, attempt_key
from trainables.accountants import Release, RunningBound

_Phases = Counter[float]


@dataclass
class _Alike:
    """Releases that differ in their phases only, as counts of each noise level."""

    phases: _Phases = field(default_factory=Counter)
    unsampled: _Phases = field(default_factory=Counter)
    num_releases: int = 0

    def count(self, what: Release, times: int) -> None:
        for counts, pairs in ((self.phases, what.phases), (self.unsampled, what.unsampled)):
            for sigma, count in pairs:
                counts[sigma] += times * count
                if not counts[sigma]:
                    del counts[sigma]
        self.num_releases += times

    def copy(self) -> _Alike:
        return _Alike(Counter(self.phases), Counter(self.unsampled), self.num_releases)


class Composition:
    """Releases, each of which has a key, by default its number; one replaces that of its key, and
    None removes it.
    """

    def __init__(self, releases: Iterable[Release] = ()) -> None:
        self._by_key: dict[Hashable, Release | None] = {}
        self._kinds: dict[Release, _Alike] = {}
        self._bound = RunningBound()
        for key, what in enumerate(releases):
            self.put(key, what)

    def put(self, key: Hashable, after: Release | None) -> None:
        """Have `after` at its key."""
        for what, times in self._changes(key, after):
            kind = _kind(what)
            alike = self._kinds.setdefault(kind, _Alike())
            alike.count(what, times)
            if not alike.num_releases:
                del self._kinds[kind]
            self._bound.add(what, times=times)
        self._by_key[key] = after

    def bound(self, key: Hashable = None, after: Release | None = None) -> RunningBound:
        """A quick upper bound of the composition, as if `put` had been called first."""
        made = self._bound.copy()
        for what, times in self._changes(key, after):
            made.add(what, times=times)
        return made

    def releases(self, key: Hashable = None, after: Release | None = None) -> Sequence[Release]:
        """Few releases with the same composition as all, as if `put` had been called first.

        >>> what = Release(phases=((2.0, 1),), sampling="shuffle", sample_rate=1.0,
        ...                neighboring_relation="replace_one")
        >>> longer = replace(what, phases=((4.0, 1), (2.0, 3)))
        >>> [each.phases for each in Composition([what, longer]).releases(2, longer)]
        [((4.0, 2), (2.0, 7))]
        """
        kinds = dict(self._kinds)
        for what, times in self._changes(key, after):
            kind = _kind(what)
            kinds[kind] = kinds.get(kind, _Alike()).copy()
            kinds[kind].count(what, times)
        return [
            made
            for kind, alike in kinds.items()
            if alike.num_releases
            for made in _merge_alike(kind, alike)
        ]

    def _changes(self, key: Hashable, after: Release | None) -> list[tuple[Release, int]]:
        """The release that one at a key removes (-1), and the one that it adds (1)."""
        both = ((self._by_key.get(key), -1), (after, 1))
        return [(what, times) for what, times in both if what is not None]


def _kind(what: Release) -> Release:
    """A key that is equal for releases that can be merged."""
    return replace(what, phases=(), unsampled=()) if _is_merged(what) else what


def _is_merged(what: Release) -> bool:
    """A selection is known by its divergences, which phases cannot represent; how many trials of
    couples there are decides their neighbouring relation.
    """
    return what.best_of is None and what.unit != "couple"


def _merge_alike(kind: Release, alike: _Alike) -> list[Release]:
    if not _is_merged(kind):
        return [kind] * alike.num_releases
    phases = tuple(sorted(alike.phases.items(), reverse=True))
    beside = tuple(sorted(alike.unsampled.items(), reverse=True))
    return [replace(kind, phases=phases, unsampled=beside)]


_Key = tuple[str, str, int, int]


class DataSetAccount:
    """The furthest entry of each attempt at a trial. Exempt ones are kept but not composed."""

    def __init__(self) -> None:
        self._entries: dict[_Key, Entry] = {}
        self._composition = Composition()
        self._new: set[_Key] = set()  # not composed yet, so that a long ledger is composed once
        self.delta: float | None = None  # the smallest of any entry that is composed

    @property
    def entries(self) -> Iterable[Entry]:
        """In order of the first entry of each attempt."""
        return self._entries.values()

    def add(self, entry: Entry) -> None:
        """Count an entry instead of the one that it replaces."""
        if self._includes(entry):
            return
        self._entries[_key(entry)] = entry
        if not entry.is_exempt:
            self._new.add(_key(entry))
            self.delta = min(entry.delta, self.delta or 1.0)

    def releases(self, after: Entry | None = None) -> Sequence[Release]:
        """Few releases with the same composition as all, as if `after` had been added."""
        self._compose()
        return self._composition.releases(*self._change(after))

    def bound(self, after: Entry | None = None) -> RunningBound:
        """A quick upper bound of the composition, as if `after` had been added."""
        self._compose()
        return self._composition.bound(*self._change(after))

    def _compose(self) -> None:
        for key in self._new:
            self._composition.put(key, self._entries[key].release)
        self._new.clear()

    def _change(self, after: Entry | None) -> tuple[_Key, Release] | tuple[()]:
        """What adding `after` puts into the composition."""
        if after is None or after.is_exempt or self._includes(after):
            return ()
        return _key(after), after.release

    def _includes(self, entry: Entry) -> bool:
        """Whether one that is as far is counted."""
        before = self._entries.get(_key(entry))
        return before is not None and before.epochs >= entry.epochs


def _key(entry: Entry) -> _Key:
    return entry.sweep_id, *attempt_key(entry)
