"""The small language model of these benchmarks, as fields of a config."""

from __future__ import annotations

import argparse
from typing import Any


def model_fields(options: argparse.Namespace) -> dict[str, Any]:
    """The section `model`, of the width and number of layers in `options`."""
    return {
        "name": "causal_lm",
        "hidden_size": options.width,
        "num_layers": options.layers,
        "num_heads": options.width // 32,
        "intermediate_size": 4 * options.width,
        "dropout": 0.0,
    }


def training_fields(options: argparse.Namespace, *, epochs: int) -> dict[str, Any]:
    """The section `training`."""
    return {
        "epochs": epochs,
        "expected_batch_size": options.batch,
        "physical_batch_size": 128,
        "learning_rate": options.learning_rate,
        "seed": options.seed,
    }
