"""Grams by the compiled code and by torch."""

import pytest

from tests.system.test_native import COMPILES
from trainables.dp.layers import gram


@pytest.fixture(params=["compiled", "torch"])
def way(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(gram, "_native_norms", lambda: None)
    elif gram._native_norms() is None:
        assert not COMPILES, "what can be compiled is used"
        pytest.skip("no C compiler (cc) on this machine")
    return request.param
