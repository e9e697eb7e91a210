"""Marked trials reach the store, also one that opens late and is unreachable at first."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from sweep.tracking.delivery import Delivery


class OpensLate:
    """Does not answer at first."""

    def __init__(self, failures: int) -> None:
        self.delivered: list[str] = []
        self._failures = failures

    def deliver(self, folder: Path, trial_ids: Iterable[str], *, running: bool) -> str:
        if self._failures:
            self._failures -= 1
            raise ConnectionError("the store does not answer")
        self.delivered += trial_ids
        return ""


def test_a_store_that_is_away_as_it_opens_gets_all_later(tmp_path: Path) -> None:
    store = OpensLate(failures=1)
    delivery = Delivery(cast(Any, store), cast(Any, tmp_path))
    delivery.mark("t1")
    until = time.monotonic() + 60
    while not store.delivered and time.monotonic() < until:
        time.sleep(0.05)
    assert store.delivered == ["t1"]
    assert delivery.close(timeout=60) is None
