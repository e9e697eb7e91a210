"""The account of one data set, composed incrementally."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sweep.spending.composition import Composition
from sweep.spending.entries import Entry, attempt_key
from trainables.accountants import Release, RunningBound

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
