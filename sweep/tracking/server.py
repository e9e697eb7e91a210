"""MLflow's server for whoever has its token. `sweep.serve` runs this module as a
program, with the number of a listening socket as its argument and the rest in the
environment.

MLflow's own basic authentication needs further packages, a database of users, and a
password that the browser keeps; its plugins must be installed. So its application is
wrapped here.
"""

import os
import socket
import sys

from sweep import access
from sweep.serve import TOKEN
from sweep.settings import from_environment
from sweep.tracking import tables


def main() -> None:
    """Serve until SIGTERM."""
    # before MLflow, which checks hosts and origins where it finds a server
    import uvicorn

    settings = from_environment()
    with tables.alone_with(settings):
        tables.make(settings)
    from mlflow.server import constants

    os.environ |= {
        constants.BACKEND_STORE_URI_ENV_VAR: settings.tracking_uri,
        constants.REGISTRY_STORE_URI_ENV_VAR: settings.tracking_uri,
        constants.ARTIFACT_ROOT_ENV_VAR: "mlflow-artifacts:/",
        constants.ARTIFACTS_DESTINATION_ENV_VAR: settings.artifacts_dir.as_uri(),
        constants.SERVE_ARTIFACTS_ENV_VAR: "true",
    }
    from mlflow.server.fastapi_app import app

    guarded = access.asgi(app, os.environ.pop(TOKEN))
    config = uvicorn.Config(guarded, log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])


if __name__ == "__main__":
    main()
