"""Grafana's dashboard of a running sweep, as JSON: it asks a Prometheus data source
with the uid `prometheus` for the metrics that Ray's agents serve.
"""

import shutil
from pathlib import Path

DASHBOARD = Path(__file__).parent / "grafana.json"


def write(folder: Path) -> Path:
    """Copy the dashboard into a folder; returns the written path."""
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(DASHBOARD, folder))
