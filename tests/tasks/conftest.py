"""Trials of these tests have fixed keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixed_keys import fixed_keys


@pytest.fixture(autouse=True)
def _fixed_keys() -> Iterator[None]:
    with fixed_keys():
        yield
