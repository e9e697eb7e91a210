"""Starts all servers that show results; a missing one gives one line and stops no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from sweep.serve import servers
from sweep.settings import Settings
from sweep.store import sweeps as store
from sweep.tracking.mlflow_views import TAG, View, views
from trainables.errors import InvalidInput, SweepError

_MOST_SWEEPS = 5  # whose views are listed, newest first
_TOKEN = "(needs a token: `ray get-auth-token` prints yours)"
_NOT_RUNNING = "not running (available while a sweep runs)"


@dataclass(frozen=True, kw_only=True)
class Places:
    """Addresses of the running servers; `missing` has the reasons of the others, a line each."""

    mlflow: str
    ray: list[str] = field(default_factory=list)
    prometheus: str | None = None
    grafana: str | None = None
    missing: dict[str, str] = field(default_factory=dict)
    views: dict[str, dict[str, str]] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """For programs."""
        return {**vars(self), "ray": self.ray[0] if self.ray else None}

    def lines(self) -> list[str]:
        """For people."""
        newest = next(iter(self.views.values()), {})
        shown = {
            "MLflow": next(iter(newest.values()), self.mlflow),  # the newest sweep's table
            "Ray dashboard": f"{', '.join(self.ray)} {_TOKEN}" if self.ray else _NOT_RUNNING,
            "Prometheus": self.prometheus or self.missing.get("prometheus", ""),
            "Grafana": self.grafana or self.missing.get("grafana", ""),
        }
        lines = [f"{name:<15}{where}" for name, where in shown.items()]
        for sweep, addresses in self.views.items():
            lines.append(f"{sweep} in MLflow (a page to share: `sweep report {sweep}`)")
            lines += [f"  {words}: {address}" for words, address in addresses.items()]
        return lines


@contextmanager
def looking(
    settings: Settings, *, ports: Mapping[str, int], stop: Callable[[], bool] = lambda: False
) -> Iterator[Places]:
    """Run MLflow's server, and Prometheus and Grafana where available, until the block ends.

    Raises: as `servers.mlflow_server`; failures of the others are listed as missing.
    """
    missing: dict[str, str] = {}
    with ExitStack() as stack:

        def have(name: str, server: AbstractContextManager[str]) -> str | None:
            if stop():
                return None
            try:
                return stack.enter_context(server)
            except SweepError as problem:
                missing[name] = str(problem)
                return None

        mlflow = stack.enter_context(servers.mlflow_server(settings, port=ports["mlflow"]))
        prometheus = have(
            "prometheus", servers.prometheus_server(settings, port=ports["prometheus"])
        )
        grafana = have(
            "grafana",
            servers.grafana_server(
                settings,
                port=ports["grafana"],
                prometheus=prometheus or f"http://{servers.HOST}:{ports['prometheus']}",
            ),
        )
        yield Places(
            mlflow=mlflow,
            ray=servers.ray_dashboards(),
            prometheus=prometheus,
            grafana=grafana,
            missing=missing,
            views=_views(settings, mlflow),
        )


def _views(settings: Settings, mlflow: str) -> dict[str, dict[str, str]]:
    """Addresses of the prepared views of the newest sweeps at the server."""
    experiment = servers.mlflow_experiment(mlflow)
    if experiment is None:
        return {}
    saved = {tag["key"] for tag in experiment.get("tags", [])}
    found: dict[str, dict[str, str]] = {}
    for name in reversed(store.names(settings.home)):
        try:
            sweep_id = str(store.open_sweep(settings.home, name).about()["id"])
        except InvalidInput:
            continue  # damaged: `sweep show` reports it
        mine = [view for view in views(name, sweep_id) if f"{TAG}{view.key}" in saved]
        if mine:
            found[name] = {_words(v): v.address(mlflow, experiment["experiment_id"]) for v in mine}
        if len(found) == _MOST_SWEEPS:
            break
    return found


def _words(view: View) -> str:
    """The view's name without its sweep's."""
    return view.name.partition(": ")[2]
