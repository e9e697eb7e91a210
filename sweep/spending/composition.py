"""Incremental composition of releases on the same records, whose cost grows with the number of
distinct noise levels instead of the number of releases. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

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
