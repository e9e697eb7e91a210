"""`sweep ui`: MLflow's server, and where Ray's dashboard is."""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.commands._options import JsonFlag, TrackingUri
from sweep.commands._output import print_json, say

if TYPE_CHECKING:
    from sweep import serve


def ui(
    port: Annotated[
        int, typer.Option(min=1, max=65_535, help="Port of MLflow's server.")
    ] = 5_000,
    write_dashboards: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Only write Grafana's dashboard, a JSON file."
        ),
    ] = None,
    tracking_uri: TrackingUri = None,
    as_json: JsonFlag = False,
) -> None:
    """Serve MLflow, and Optuna's dashboard if installed, on loopback until Ctrl-C.

    Every user of this machine can reach them, so they ask for a random token, which is
    in the printed links. While a sweep runs, the address of Ray's dashboard is printed.
    Your server for the same home that already runs at the port is kept. Optuna's
    dashboard shows the trials that had finished when their sweep was read.
    """
    if write_dashboards is not None:
        from dashboards import grafana

        written = grafana.write(write_dashboards)
        if as_json:
            print_json("ui --write-dashboards", {"written": str(written)})
        else:
            say(str(written))
        return
    from sweep import interrupts, serve
    from sweep.search import exploration
    from sweep.settings import from_environment

    settings, token = (
        from_environment(tracking_uri=tracking_uri),
        secrets.token_urlsafe(16),
    )
    interrupts.now.explain = lambda: "what was started here has ended"
    with (
        serve.mlflow_server(settings, port=port, token=token) as mlflow,
        exploration.dashboard(settings.home, host=serve.HOST, token=token) as explored,
    ):
        optuna = None if explored is None else serve.Server(explored, token).link()
        ray = serve.ray_dashboards()
        link = mlflow.link(f"/{page_of_trials(mlflow, settings.home)}")
        if as_json:
            found = {"mlflow": link, "optuna": optuna, "ray": ray[0] if ray else None}
            print_json("ui", found | {"token": mlflow.token or None})
        else:
            say(
                f"MLflow  {link}",
                f"Optuna  {optuna or 'not installed: pip install optuna-dashboard'}",
                *(f"Ray     {each} (its token: `ray get-auth-token`)" for each in ray),
            )
            if mlflow.token:
                names = f"MLFLOW_TRACKING_URI={mlflow.address} MLFLOW_TRACKING_TOKEN={mlflow.token}"
                say(f"Scripts {names}")
            say("Ctrl-C ends what was started here.")
        threading.Event().wait()


def page_of_trials(server: serve.Server, home: Path) -> str:
    """The page of MLflow with the trials of the newest sweep of `home` that it has, the
    best first; that of all runs where there is none, "" where there is no experiment.
    """
    from sweep import serve
    from sweep.store.sweeps import sweeps
    from trainables.errors import SweepError

    experiment = serve.mlflow_experiment(server)
    if experiment is None:
        return ""
    number = experiment.get("experiment_id")
    page = f"#/experiments/{number}/runs?workflowType=machine_learning"
    keys = {tag.get("key") for tag in experiment.get("tags", ())}
    for folder in reversed(sweeps(home)):
        with suppress(SweepError):  # `sweep list` marks a damaged one
            sweep_id = folder.about()["id"]
            if f"{serve.SHARED_VIEW}{sweep_id}" in keys:
                return f"{page}&viewStateShareKey={sweep_id}"
    return page
