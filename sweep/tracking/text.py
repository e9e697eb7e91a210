"""Names and formats of a trial's figures and fields in a tracking store. Pure."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from sweep.store.plans import PlannedTrial
from sweep.store.trial_names import setting
from trainables.figures import EPSILON, EPSILON_PAPER, is_public
from trainables.privacy.mechanism import claims_privacy
from trainables.privacy.rounding import format_epsilon, format_lower_bound

CURATOR = "curator_only"  # the folder of artifacts and the prefix of names for the curator only
CURATOR_PREFIX = f"{CURATOR}/"
# Counts of a sweep's own run; every other metric is a trial's figure.
OF_A_SWEEP = frozenset({"trials", "trials_refused", "trials_failed", "trials_done"})
MARKER = "epochs_done"  # its greatest value: the epochs that have been delivered
NUMBER = "trial_number"  # in the order of the plan, from 1
UNGROUPED = frozenset({MARKER, NUMBER})


_LONGEST_KEY = 250  # characters
_REFUSED_IN_KEYS = re.compile(r"[^\w.\- ]")


def accepted(name: str) -> str:
    """A name of a param, metric or tag as MLflow accepts it: of letters, digits and "_-. /", as a
    relative path without empty steps. A changed one ends with a digest, so that two remain two.

    >>> accepted("privacy/epsilon"), accepted("model.options.a@b#c"), accepted("../x")
    ('privacy/epsilon', 'model.options.a_b_c-0bb0519c', '_x-d6b96a97')
    """
    steps = name.split("/")
    is_path = not {"", ".", ".."} & set(steps) and not any(map(_REFUSED_IN_KEYS.search, steps))
    if is_path and not name.startswith("..") and len(name) <= _LONGEST_KEY:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    kept = _REFUSED_IN_KEYS.sub("_", name).lstrip(".")[: _LONGEST_KEY - 9]
    return f"{kept}-{digest}"


def escape(text: str) -> str:
    """A text with the special characters of Markdown and HTML escaped.

    >>> escape("a|b *c* <img src=x>")
    'a/b \\\\*c\\\\* &lt;img src=x&gt;'
    """
    text = " ".join(text.replace("|", "/").split())
    for sign in "\\`*_[]#!~":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def metric_key(name: str) -> str:
    """A metric's name in MLflow.

    >>> metric_key("ser"), metric_key("mia_shadow_auc"), metric_key("best_mia_shadow_auc")
    ('ser', 'curator_only/mia_shadow_auc', 'curator_only/best_mia_shadow_auc')
    >>> metric_key("curator_only/steps")
    'curator_only/steps'
    """
    if name.startswith(CURATOR_PREFIX):
        return name
    alone = name.removeprefix("best_").removeprefix("log10_")
    public = name in OF_A_SWEEP | UNGROUPED or is_public(name) or is_public(alone)
    return name if public else f"{CURATOR_PREFIX}{name}"


def grouped_key(key: str) -> str:
    """A metric's key under the name of its group, by which MLflow's charts are sorted.

    >>> [grouped_key(key) for key in ("ser", "validation_ser", "epsilon", "best_ser")]
    ['test/ser', 'validation/ser', 'privacy/epsilon', 'best/ser']
    >>> [grouped_key(key) for key in ("seconds_epoch", "trials_done", "curator_only/leakage")]
    ['time/seconds_epoch', 'sweep/trials_done', 'curator_only/leakage']
    """
    if "/" in key or key in UNGROUPED:
        return key
    if key in OF_A_SWEEP:
        return f"sweep/{key}"
    for prefix in ("best", "validation"):
        if key.startswith(f"{prefix}_"):
            return f"{prefix}/{key.removeprefix(f'{prefix}_')}"
    words = set(key.split("_"))
    if words & {"epsilon", "delta", "noise"}:
        return f"privacy/{key}"
    return f"time/{key}" if words & {"seconds", "second"} else f"test/{key}"


def run_name(plan: PlannedTrial) -> str:
    """A trial's name with its axes first: what a narrow column cuts off is the variant."""
    return ", ".join([*(setting(path, v) for path, v in plan.values.items()), plan.variant])


def flat(fields: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Dotted names and values of nested fields, without missing values.

    >>> dict(flat({"a": {"b": 1, "c": None}, "d": [1, 2]}))
    {'a.b': 1, 'd': '1, 2'}
    """
    for key, value in fields.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from flat(value, f"{name}.")
        elif isinstance(value, list | tuple):
            yield name, ", ".join(str(item) for item in value)
        elif value is not None:
            yield name, value


def mark_counted(metrics: Mapping[str, Any], plan: PlannedTrial) -> dict[str, Any]:
    """The figures; those that reveal a counted number of records under the prefix."""
    return {
        f"{CURATOR_PREFIX}{name}" if plan.reveals_count(name) else name: value
        for name, value in metrics.items()
    }


def epoch_table(rows: list[dict[str, Any]], *, public: bool) -> str:
    """The epochs of a trial as CSV: public figures, or all."""
    known = {name for row in rows for name in row["metrics"]}
    names = sorted(name for name in known if is_public(name) or not public)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["epochs_done", "seconds", *(metric_key(name) for name in names)])
    for row in rows:
        writer.writerow(
            [row["epochs_done"], row["seconds"], *(row["metrics"].get(name) for name in names)]
        )
    return text.getvalue()


def params_of(plan: PlannedTrial) -> dict[str, Any]:
    """A trial's config as flat parameters; C, z0, decay and tau also by the paper's letters, for
    narrow columns.
    """
    fields = dict(plan.fields)
    if not claims_privacy(plan.engine):  # it has no mechanism; its defaults would only mislead
        fields.pop("privacy", None)
        return dict(flat(fields))
    params = dict(flat(fields))
    privacy = plan.config.privacy
    if plan.noise_multiplier is not None:
        params["noise_multiplier"] = params["z0"] = plan.noise_multiplier
    decay = privacy.noise_decay
    return {**params, "C": privacy.max_grad_norm, "decay": decay.kind, "tau": decay.tau}


def tags_of(plan: PlannedTrial, about: Mapping[str, Any]) -> dict[str, str]:
    """The tags for finding a trial's run."""
    return {
        "engine": plan.engine,
        "dataset": plan.config.data.name,
        "model": plan.config.model.name,
        "variant": plan.variant,
        "baseline": str(plan.baseline).lower(),
        "group": plan.group,
        "privacy.warnings": "; ".join(plan.warnings),
        **version_tags(about),
    }


def version_tags(about: Mapping[str, Any]) -> dict[str, str]:
    """Versions and commit that a sweep ran with."""
    versions = {f"version.{name}": text for name, text in about.get("versions", {}).items()}
    return {**versions, "git_commit": str(about.get("git_commit") or "")}


def violation_text(violation: Mapping[str, float] | None) -> str:
    """A violated claim in words; empty without a violation."""
    if violation is None:
        return ""
    bound, claim = (violation[name] for name in ("epsilon_lower_bound", "epsilon_claimed"))
    certified = f"certified epsilon >= {format_lower_bound(bound)}"
    return f"{certified} above the claimed {format_epsilon(claim)}"


def logarithms(metrics: Mapping[str, float | None]) -> dict[str, float]:
    """log10 of the epsilons, because charts of a tracking store have no logarithmic axes.

    >>> logarithms({"epsilon": 100.0, "epsilon_paper": None})
    {'log10_epsilon': 2.0}
    """
    return {
        f"log10_{name}": math.log10(value)
        for name in (EPSILON, EPSILON_PAPER)
        if (value := metrics.get(name)) is not None and value > 0 and math.isfinite(value)
    }
