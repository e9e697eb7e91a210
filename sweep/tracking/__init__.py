"""Trackers, the model registry and the delivery of results. The only importer of mlflow."""
