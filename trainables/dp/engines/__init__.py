"""Engines take the steps of training: plain SGD, eDP-SGD (Dupuy et al. 2021),
per-example DP-SGD.

`ENTRIES` lists the engines by the names that configs use. Each is a class in
`configs`, without torch, so that plans and charts read it at no cost; its `make` gives
the engine itself (`_engine.Engine`), and `_audit` measures what its steps release.
"""

from trainables.dp.engines.configs import (
    DpSgdConfig,
    EdpSgdConfig,
    SgdConfig,
    UntrainedConfig,
)

ENTRIES = {
    "dp_sgd": DpSgdConfig,
    "edp_sgd": EdpSgdConfig,
    "sgd": SgdConfig,
    "untrained": UntrainedConfig,
}
DEFAULT = "edp_sgd"
BASELINE = "sgd"  # without privacy, which the others are measured against
