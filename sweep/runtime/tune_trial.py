"""What a Tune trial does, in an actor, which imports nothing that takes seconds beside
Tune.
"""

from contextlib import suppress
from typing import Any

import ray
from ray import tune

TIME_ATTR = "epoch"  # never training_iteration: that counts again from 1 after a resume
TRIAL = "trial"  # the key of a Tune trial's config that names it
SLOT = "slot"  # or that of its slot, where the trials are secret


def name_of(config: Any) -> str:
    """What a Tune trial stands for: a trial of the sweep, or a slot."""
    return str(config.get(TRIAL, config.get(SLOT)))


def shown_name(config: Any) -> str:
    """The name of a Tune trial with its point of the space, where that is no secret.

    >>> shown_name({"trial": "a1", "privacy.max_grad_norm": 0.5, "seed": None})
    'a1 max_grad_norm=0.5'
    >>> shown_name({"slot": 2})
    '2'
    """
    return " ".join([name_of(config), *_values(config)])


def lease(config: dict[str, Any], pool: Any) -> None:
    """The Tune trial of one trial, or of a slot, which takes one trial after another
    whose number is secret. It ends with the pool.
    """
    explorer, is_sealed = name_of(config), SLOT in config
    # Ray's dashboard lists calls by their names, and so the trials by their points.
    named = {} if is_sealed else {"name": f"{explorer}: {', '.join(_values(config))}"}
    seen = passed = 0
    with suppress(ray.exceptions.ActorDiedError):
        while (
            news := ray.get(pool.explore.options(**named).remote(explorer, seen))
        ) is not None:
            seen, report = news
            # After a crash an epoch is reported once more; schedulers expect time to
            # move.
            if report is not None and report.epochs_done > passed and not is_sealed:
                passed = report.epochs_done
                tune.report({**report.metrics, TIME_ATTR: passed})


def _values(config: Any) -> list[str]:
    """The values of the axes, by the last words of their paths."""
    return [
        f"{axis.rpartition('.')[2]}={value}"
        for axis, value in config.items()
        if value is not None and axis not in (TRIAL, SLOT)
    ]
