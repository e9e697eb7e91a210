"""The parts of a trial: configuration, mechanism, data, models, engines, metrics and
attacks.

Nothing here imports sweeps, Ray or MLflow. A folder with a plural name is a registry
of components, which configs name. Importing this package imports nothing else.
"""
