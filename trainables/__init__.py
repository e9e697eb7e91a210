"""What a trial is: its configuration, mechanism, data, models, engines, metrics and attacks.

Knows nothing of sweeps, Ray or MLflow. A plural folder is a shelf: one file is one entry, and the
file's name is the name in a config. Importing this package imports nothing else.
"""
