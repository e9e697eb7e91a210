"""Bringing up a local Ray on a machine that is slow to do so."""

from __future__ import annotations

from typing import Any

import pytest
import ray

from sweep import ray_session
from trainables.errors import SweepError


def starts(monkeypatch: pytest.MonkeyPatch, failures: list[Exception]) -> list[Any]:
    """Replace Ray's own start by one that fails with these, then succeeds."""
    calls: list[Any] = []

    def init(**options: Any) -> None:
        calls.append(options)
        if failures:
            raise failures.pop(0)

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    return calls


SLOW = "The current node timed out during startup. This could happen because ..."


def test_a_node_that_was_too_slow_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = starts(monkeypatch, [Exception(SLOW)])
    ray_session._start_local(num_cpus=2)
    assert calls == [{"num_cpus": 2}, {"num_cpus": 2}]


def test_a_node_that_never_comes_up_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    starts(monkeypatch, [Exception(SLOW)] * 3)
    with pytest.raises(SweepError, match="3 tries"):
        ray_session._start_local(num_cpus=2)


def test_any_other_failure_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = starts(monkeypatch, [ValueError("no such option")])
    with pytest.raises(ValueError, match="no such option"):
        ray_session._start_local()
    assert len(calls) == 1
