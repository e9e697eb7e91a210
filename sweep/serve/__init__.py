"""The MLflow UI, the Ray dashboard, Prometheus and Grafana, on loopback."""
