"""Names, figures and words of a trial's run in MLflow. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sweep.results import select
from sweep.store.plans import PlannedTrial, flat
from sweep.store.sweeps import TrialRecord
from trainables import figures
from trainables.errors import InvalidInput
from trainables.figures import EPSILON, EPSILON_PAPER, LEAKAGE
from trainables.privacy.from_config import claims_privacy
from trainables.privacy.rounding import format_epsilon, format_lower_bound

CURATOR = "curator_only"  # the folder of artifacts for the curator, and the tag that names figures
MIA_AUC, _TPR = "mia_auc", "mia_tpr_at_1_percent"
_BOUND = "epsilon_lower_bound"
# In this order, before other figures of the task that are in tables or that a search may optimise.
_OF_NOISE = ("delta", "noise_multiplier")
_FIRST = ("ser", "icer", "slot_f1", LEAKAGE, EPSILON, EPSILON_PAPER, _BOUND, *_OF_NOISE, "seconds")
_NAMES = {LEAKAGE: MIA_AUC, "icer": "intent_error", EPSILON_PAPER: "paper_epsilon"}
READING = (
    "`epsilon` is a guarantee of the code that ran; `paper_epsilon` is the paper's formula and"
    " none. `mia_auc` is the MIA-AUC: the AUC of the strongest membership-inference attack, and"
    f" `{_TPR}` is that attack's true-positive rate at 1 % false positives. No epsilon covers the"
    " figures that the tag `curator_only` names, so they are for the curator alone."
)
ABOUT_EXPERIMENT = f"Every sweep is a run; its trials are its child runs. {READING}"


def metric_name(figure: str) -> str:
    """A figure's name in MLflow; `best_` is that of the epoch whose weights are kept.

    >>> [metric_name(name) for name in ("ser", "leakage", "validation_ser")]
    ['ser', 'mia_auc', 'best_validation_ser']
    """
    known = figures.registry().get(figure)
    is_curve = known is not None and known.per_epoch and known.objective
    return f"best_{figure}" if is_curve else _NAMES.get(figure, figure)


def learning_curves(task: str) -> list[str]:
    """The public figures that are known after each epoch and that a search may optimise."""
    known = figures.registry()
    return [n for n in figures.objectives(task) if known[n].per_epoch and known[n].is_public]


def headline(record: TrialRecord) -> dict[str, tuple[str, float]]:
    """The headline figures of a trial by their names in MLflow, as (registered name, value).

    A noise multiplier or a delta that the config states is a parameter and no result.
    """
    plan = record.plan
    stated = {path.rpartition(".")[2] for path in params_of(plan)}
    stated |= set() if claims_privacy(plan.engine) else set(_OF_NOISE)
    found, registry = {}, figures.registry()
    for name in dict.fromkeys((*_FIRST, *registry)):
        figure = registry[name]
        is_compared = name in _FIRST or figure.is_listed or figure.objective
        if not is_compared or figure.task not in (None, plan.task) or name in stated:
            continue
        value = getattr(plan, name) if name in _OF_NOISE else select.value(record, name)
        if value is not None:
            found[metric_name(name)] = name, value
        if name == LEAKAGE and value is not None:
            from trainables.attacks import strongest  # SciPy, only where attacks ran

            best = strongest(record.metrics)
            rate = f"mia_{best.attack}_tpr_1pct" if best is not None and not best.inverted else ""
            if (share := record.metrics.get(rate)) is not None:
                found[_TPR] = rate, share
    return found


def figure_table(record: TrialRecord) -> dict[str, list[Any]]:
    """The figures that may be published, as MLflow's tables are: `columns`, and rows of `data`."""
    return {
        "columns": ["figure", "label", "value"],
        "data": [
            # JSON has no infinity.
            [name, figures.label(name), v if v is not None and math.isfinite(v) else None]
            for name, v in sorted(record.metrics.items())
            if record.plan.may_publish(name)
        ],
    }


def summary_of(records: Sequence[TrialRecord]) -> dict[str, float]:
    """The figures of the best trial, and the number of trials by status. Pure."""
    finished = [record for record in records if record.status.is_finished]
    found: dict[str, float] = {}
    with suppress(InvalidInput):  # no figure that all have, or no trial
        # As everywhere: by what was found on validation records, where that is known.
        best, *others = select.best_of_each(select.finished(finished) or finished)
        for name in (select.headline(records), LEAKAGE, EPSILON, EPSILON_PAPER, "seconds"):
            value = select.value(best, name)
            # The best of one corpus alone.
            if value is not None and not others and not best.plan.reveals_count(name):
                found[f"best_{metric_name(name)}"] = value
    found |= {"trials": len(records), "trials_done": len(finished)}
    return found | {
        f"trials_{w}": sum(r.status == w for r in records) for w in ("failed", "refused")
    }


def params_of(plan: PlannedTrial) -> dict[str, object]:
    """A trial's config, the axes of its space among it, by dotted paths, each once, without missing
    values.
    """
    fields = dict(plan.fields)
    if not claims_privacy(plan.engine):  # it has no mechanism; its defaults would only mislead
        fields.pop("privacy", None)
    return {
        path: ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        for path, value in flat(fields).items()
        if value is not None
    }


def result_tags(record: TrialRecord, shown: Mapping[str, tuple[str, float]]) -> dict[str, str]:
    """What an ended trial's run says beside the figures `shown`."""
    hidden = [key for key, (name, _) in shown.items() if not record.plan.may_publish(name)]
    return {
        "sweep.reason": record.reason or "",
        f"{CURATOR}.violation": violation_text(record.violation),
        f"{CURATOR}.notes": "; ".join(record.notes),  # they speak of attacks
        CURATOR: ", ".join(sorted(hidden)),
        # MLflow has no infinity: such a figure is a tag and no metric.
        **{key: "inf" for key, (_, value) in shown.items() if math.isinf(value)},
    }


def violation_text(violation: Mapping[str, float] | None) -> str:
    """A violated claim in words; empty without a violation."""
    if violation is None:
        return ""
    bound, claim = (violation[name] for name in (_BOUND, "epsilon_claimed"))
    certified = f"certified epsilon >= {format_lower_bound(bound)}"
    return f"{certified} above the claimed {format_epsilon(claim)}"


def accepted(name: str) -> str:
    """The path of a field, which may end with a user's own words, as every MLflow accepts it.

    >>> accepted("privacy.delta"), accepted("model.options.a@b#c")
    ('privacy.delta', 'model.options.a-40-b-23-c')
    """
    return re.sub(r"[^\w. ]", lambda sign: f"-{ord(sign[0]):x}-", name)[:250]
