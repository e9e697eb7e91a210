"""The tracker and the delivery of results. The only importer of mlflow.

MLflow's telemetry is off in this process and in those that it starts: MLflow reads that
when it is imported.
"""

import os

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
