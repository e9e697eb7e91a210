"""`sweep ui`: where to look at results."""

from __future__ import annotations

from typing import Annotated

import typer

from sweep.commands._shared import JsonFlag, TrackingUri, console, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def ui(
        port: Annotated[int, typer.Option(min=1, max=65_535, help="Of MLflow's server.")] = 5_000,
        tracking_uri: TrackingUri = None,
        as_json: JsonFlag = False,
    ) -> None:
        """Start MLflow's server on loopback and print where to look; Ctrl-C ends it."""
        import signal
        import threading

        from sweep.servers import addresses, mlflow_server
        from sweep.settings import from_environment

        settings = from_environment(tracking_uri=tracking_uri)
        over = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: over.set())
        with mlflow_server(settings, port=port) as address:
            found = addresses(address)
            if as_json:
                print_json(found)
            else:
                out = console()
                out.print(f"MLflow         {found['mlflow']}", markup=False)
                ray = found["ray"] or "not running (it is there while a sweep runs)"
                out.print(f"Ray dashboard  {ray}", markup=False)
                out.print("Ctrl-C ends what was started here.")
            over.wait()
