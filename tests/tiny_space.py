"""The file of a space with one private trial of seconds."""

import yaml


def write_tiny_space(file, *, epochs, attacks=()):
    """Heads on made utterances."""
    base = {
        "data": {"name": "communication", "num_utterances": 1000},
        "model": {"name": "features", "encoder": "dialogues"},
        "engine": "dp_sgd",
        "privacy": {"noise_multiplier": 2.0, "delta": 1e-3},
        "training": {"epochs": epochs, "expected_batch_size": 40, "num_workers": 1},
        "evaluation": {"attacks": [*attacks], "bootstrap_samples": 0},
    }
    resources = {"workers": 1, "slots": 1}
    file.write_text(
        yaml.safe_dump({"name": "tiny", "base": base, "resources": resources})
    )
