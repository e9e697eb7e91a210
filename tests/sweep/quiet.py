"""Warnings of MLflow, SQLAlchemy and Ray themselves, which tests of sweeps ignore."""

from __future__ import annotations

import pytest

_KINDS = (
    *("DeprecationWarning", "FutureWarning", "ResourceWarning"),
    "pytest.PytestUnraisableExceptionWarning",
)
QUIET = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in _KINDS]
