"""Running sweeps: plan, budget, store, Ray, MLflow, and the command line on top."""
