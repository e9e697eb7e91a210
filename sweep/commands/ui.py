"""`sweep ui`: servers that show results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sweep.commands._options import JsonFlag, TrackingUri
from sweep.commands._output import print_json, say


def ui(
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port of MLflow's server.")] = 5_000,
    prometheus_port: Annotated[
        int, typer.Option(min=1, max=65_535, help="Port of Prometheus, if it is installed.")
    ] = 9_090,
    grafana_port: Annotated[
        int, typer.Option(min=1, max=65_535, help="Port of Grafana, if it is installed.")
    ] = 3_000,
    write_dashboards: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Only write Grafana's dashboard, Prometheus' config and a compose file.",
        ),
    ] = None,
    tracking_uri: TrackingUri = None,
    as_json: JsonFlag = False,
) -> None:
    """Start the servers that show results, on loopback. Ctrl-C stops them.

    MLflow's server has prepared views of every sweep. Prometheus and Grafana start if they are
    installed. While a sweep runs, the address of Ray's dashboard is printed. Servers that already
    run are kept.
    """
    if write_dashboards is not None:
        from dashboards import grafana

        written = [str(path) for path in grafana.write(write_dashboards)]
        if as_json:
            print_json("ui --write-dashboards", {"written": written})
        else:
            say("\n".join(written))
        return
    from sweep import interrupts
    from sweep.serve.places import looking
    from sweep.settings import from_environment

    settings = from_environment(tracking_uri=tracking_uri)
    ports = {"mlflow": port, "prometheus": prometheus_port, "grafana": grafana_port}
    with (
        interrupts.expected() as over,
        looking(settings, ports=ports, stop=over.is_set) as found,
    ):
        if as_json:
            print_json("ui", found.summary())
        else:
            for line in (*found.lines(), "Ctrl-C ends what was started here."):
                say(line)
        over.wait()
