"""Where a sweep finds and keeps things, from the environment. No disk is touched here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainables.errors import InvalidInput

_SCHEMES = ("sqlite", "postgresql", "mysql", "mssql", "http", "https", "databricks")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`home` holds the sweeps, `data_dir` the corpora, `cache_dir` what is derived from them;
    `tracking_uri` is MLflow's store.
    """

    home: Path
    data_dir: Path
    cache_dir: Path
    tracking_uri: str


def from_environment(
    environment: Mapping[str, str] | None = None, *, tracking_uri: str | None = None
) -> Settings:
    """Settings from $SWEEP_HOME, $SWEEP_DATA_DIR, $SWEEP_CACHE_DIR and $MLFLOW_TRACKING_URI.

    Defaults: ./sweeps, ./data, `cache` under the home, and a SQLite file under the home.

    >>> from_environment({"SWEEP_HOME": "/s"}).tracking_uri
    'sqlite:////s/mlflow.db'

    Raises: InvalidInput for a tracking URI that is none.
    """
    given = os.environ if environment is None else environment
    home = Path(given.get("SWEEP_HOME") or "sweeps").absolute()
    uri = tracking_uri or given.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home / 'mlflow.db'}"
    scheme = uri.split(":")[0].split("+")[0]
    if ":" not in uri or scheme not in _SCHEMES:
        raise InvalidInput(
            f"expected tracking_uri to start with one of {', '.join(_SCHEMES)}, got {uri!r}"
        )
    return Settings(
        home=home,
        data_dir=Path(given.get("SWEEP_DATA_DIR") or "data").absolute(),
        cache_dir=Path(given.get("SWEEP_CACHE_DIR") or home / "cache").absolute(),
        tracking_uri=uri,
    )
