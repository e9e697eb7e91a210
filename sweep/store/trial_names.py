"""Short names of trials, fields and values for tables. Pure."""

from __future__ import annotations

from typing import Any

# Short names: the paper's letters, and the usual ones.
_LABELS = {
    "privacy.max_grad_norm": "C",
    "privacy.noise_multiplier": "z0",
    "privacy.noise_multiplier.target_epsilon": "epsilon",
    "privacy.noise_decay": "decay",
    "privacy.noise_decay.kind": "decay",
    "privacy.noise_decay.tau": "tau",
    "training.learning_rate": "lr",
    "training.expected_batch_size": "B",
    "training.num_workers": "N",
    "training.steps": "T",
}


def label(path: str) -> str:
    """A short name of a config's field.

    >>> label("privacy.max_grad_norm"), label("training.seed")
    ('C', 'seed')
    """
    return _LABELS.get(path, path.rsplit(".", 1)[-1])


def short(value: Any) -> str:
    """A short form of an axis' value for tables.

    >>> short({"target_epsilon": 8.0}), short({"kind": "linear", "tau": 0.1}), short(1e-5)
    ('ε ≤ 8', 'linear:0.1', '1e-05')
    >>> short({"kind": "none", "tau": 0.0}), short({"total_noise": 0.5})
    ('none', 'total_noise:0.5')
    """
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict) and set(value) == {"target_epsilon"}:
        return f"ε ≤ {short(value['target_epsilon'])}"
    if isinstance(value, dict) and value.get("kind") == "none":
        return "none"
    if isinstance(value, dict) and "kind" not in value:
        return ":".join(f"{key}:{short(part)}" for key, part in value.items())
    if isinstance(value, dict):
        return ":".join(short(part) for part in value.values())
    return str(value)


def setting(path: str, value: Any) -> str:
    """A field and its value.

    >>> setting("privacy.max_grad_norm", 0.5)
    'C=0.5'
    >>> setting("privacy.noise_multiplier", {"target_epsilon": 8})
    'ε≤8'
    """
    words = short(value)
    return words.replace(" ", "") if words.startswith("ε ≤ ") else f"{label(path)}={words}"
