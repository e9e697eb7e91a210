"""`sweep ui`: MLflow's server, and where Ray's dashboard is."""

import threading
from pathlib import Path
from typing import Annotated

import typer

from sweep.commands._options import JsonFlag, TrackingUri
from sweep.commands._output import print_json, say


def ui(
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port of MLflow's server.")] = 5_000,
    write_dashboards: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Only write Grafana's dashboard, a JSON file."),
    ] = None,
    tracking_uri: TrackingUri = None,
    as_json: JsonFlag = False,
) -> None:
    """Start MLflow's server and Optuna's dashboard, if installed, on loopback, until Ctrl-C.

    While a sweep runs, the address of Ray's dashboard is printed. A server that already runs is
    kept. Optuna's dashboard shows the trials that had finished when their sweep was read.
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

    settings = from_environment(tracking_uri=tracking_uri)
    interrupts.now.explain = lambda: "what was started here has ended"
    with (
        serve.mlflow_server(settings, port=port) as address,
        exploration.dashboard(settings.home, host=serve.HOST) as explored,
    ):
        ray = serve.ray_dashboards()
        if (sweeps := serve.mlflow_experiment(address)) is not None:
            address += f"/#/experiments/{sweeps.get('experiment_id')}/runs"
        found = {"mlflow": address, "optuna": explored, "ray": ray[0] if ray else None}
        if as_json:
            print_json("ui", found)
        else:
            say(
                f"MLflow  {address}",
                f"Optuna  {explored or 'not installed: pip install optuna-dashboard'}",
                *(f"Ray     {each} (its token: `ray get-auth-token`)" for each in ray),
                "Ctrl-C ends what was started here.",
            )
        threading.Event().wait()
