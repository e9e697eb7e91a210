"""The parts of a trial: configuration, mechanism, data, models, engines, metrics and
attacks.

Nothing here imports sweeps, Ray or MLflow. A plural folder is a shelf. One file is one
entry, and the file's name is the name in a config. Importing this package imports
nothing else.
"""
