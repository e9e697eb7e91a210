"""Grafana's dashboard of a running sweep and its provisioning files, kept in `provisioning/`.

These include Prometheus' scrape config and a compose file for Docker users. `sweep ui
--write-dashboards DIR` copies them all.
"""

from __future__ import annotations

import shutil
from pathlib import Path

UID = "dp-nlu-sweep"  # the dashboard's, in addresses
PROVISIONED = Path(__file__).parent / "provisioning"
_DISCOVERY = "/tmp/ray/prom_metrics_service_discovery.json"


def prometheus_config(*, discovery: Path) -> str:
    """Prometheus' config with another list of scrape targets than Ray's."""
    kept = (PROVISIONED / "prometheus.yml").read_text("utf-8")
    return kept.replace(_DISCOVERY, str(discovery))


def write(folder: Path) -> list[Path]:
    """Copy the files into a folder; returns the written paths."""
    shutil.copytree(PROVISIONED, folder, dirs_exist_ok=True)
    kept = sorted(path for path in PROVISIONED.rglob("*") if path.is_file())
    return [folder / path.relative_to(PROVISIONED) for path in kept]
