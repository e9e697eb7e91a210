"""Engines take the steps of training: plain SGD, eDP-SGD (Dupuy et al. 2021),
per-example DP-SGD.

`ENTRIES` lists the engines by the names that configs use. Each is a class in
`configs`, without torch, so that plans and charts read it at no cost; its `make` gives
the engine itself (`engine.Engine`), and `step_audit` measures what its steps release.
"""

ENTRIES = {
    "dp_sgd": "configs:DpSgdConfig",
    "edp_sgd": "configs:EdpSgdConfig",
    "sgd": "configs:SgdConfig",
    "untrained": "configs:UntrainedConfig",
}
DEFAULT = "edp_sgd"
BASELINE = "sgd"  # without privacy, which the others are measured against
