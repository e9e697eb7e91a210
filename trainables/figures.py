"""Every figure of a trial as data: its direction, its audience and its format.

A module registers figures in its constant `FIGURES`, beside the functions that compute
them. Lists of figures are derived from the registry: objectives, metrics of a tracking
store, gauges, tables. Unregistered figures are for the curator alone, so that nothing
is published by accident.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Literal

from trainables import catalogue

Better = Literal["lower", "higher", "neither"]
Audience = Literal["public", "curator"]
Written = Literal["number", "epsilon", "lower_bound", "rate", "count", "seconds"]

# Modules that register figures, in addition to every registered metric.
_MODULES = (
    "trainables.result",
    "trainables.dp.accounting.summary",
    "trainables.attacks",
    "trainables.metrics",
)
VALIDATION = "validation_"
# With `privacy.covers: all`, in place of the figures of validation records.
RELEASED_VALIDATION = "validation_errors"
# What a record adds at most to a released sum: errors (of intent and slots), and labels
# (one intent and the slots), the denominator of a semantic error rate.
MOST_ERRORS, MOST_LABELS = 3, 10
ATTACKS = "mia_"
LEAKAGE = "leakage"
CLIP_DIFFERENCE = "clip_difference"
EPSILON = "epsilon"
EPSILON_PAPER = "epsilon_paper"
EPSILON_REPLACE_ONE = "epsilon_replace_one"
# What the guarantee allows an attacker (`privacy_semantics.ClaimMeaning`).
RISKS = ("max_tpr_1pct", "max_tpr_01pct", "max_advantage")
_BOUNDS = {"low": "lower bound of", "high": "upper bound of"}
_CEILING = "human_ceiling"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of a trial.

    `task` None: of every task. `audience` is the curator by default, because no epsilon
    covers a figure computed from private records without noise. `per_epoch` figures are
    known after each epoch, the others at the end. `objective`: a search may optimise
    it. `is_listed`: shown in tables of trials.

    These add derived figures: `has_bounds` its 95 % interval, `has_ceiling` the figure
    of human text, `is_validated` the same figure on the validation records after each
    epoch, which then is the one that a search may optimise.
    """

    name: str
    label: str
    better: Better = "neither"
    audience: Audience = "curator"
    task: str | None = None
    unit: str = ""
    per_epoch: bool = False
    written: Written = "number"
    objective: bool = False
    is_listed: bool = False
    has_bounds: bool = False
    has_ceiling: bool = False
    is_validated: bool = False

    @property
    def is_public(self) -> bool:
        """Whether it may be published."""
        return self.audience == "public"

    @property
    def help(self) -> str:
        """A description of the figure with unit and audience."""
        unit = f", in {self.unit}" if self.unit else ""
        return (
            f"{self.label}{unit}{'' if self.is_public else ' (for the curator only)'}"
        )

    def family(self) -> Iterator[Figure]:
        """The figure and its derived figures."""
        alone = replace(self, has_bounds=False, has_ceiling=False, is_validated=False)
        yield replace(alone, objective=self.objective and not self.is_validated)
        beside = replace(alone, better="neither", objective=False, is_listed=False)
        if self.has_bounds:
            for end, words in _BOUNDS.items():
                yield replace(
                    beside, name=f"{self.name}_{end}", label=f"{words} {self.label}"
                )
        if self.has_ceiling:
            yield replace(
                beside,
                name=f"{self.name}_{_CEILING}",
                label=f"{self.label} of human text",
            )
        if self.is_validated:
            yield replace(
                alone,
                name=f"{VALIDATION}{self.name}",
                label=f"validation {self.label}",
                per_epoch=True,
            )


# Most metrics are shares, measured on records that no training has read.
public = partial(Figure, audience="public")
public_count = partial(public, written="count")
nlu_rate = partial(public, task="nlu", written="rate")
text_figure = partial(public, task="synthesis")
text_count = partial(text_figure, written="count")
text_rate = partial(text_figure, written="rate")
text_share = partial(text_rate, better="higher", has_ceiling=True)


# Of a trial whose guarantee covers every record, what may be published: figures with
# noise, and those of declared values alone. Durations and throughput follow from the
# records, and are not noised.
_COVERED = frozenset(
    (
        *("ser", "ser_low", "ser_high", RELEASED_VALIDATION, "delta", "steps"),
        *(EPSILON, EPSILON_PAPER, EPSILON_REPLACE_ONE, "epsilon_rdp", *RISKS),
        *("epsilon_planned", "epsilon_spent", "epsilon_paper_spent"),
        *("noise_multiplier", "noise_norm", "epochs_done", "epochs", "best_epoch"),
    )
)


def is_covered(name: str) -> bool:
    """Whether a figure of a trial with `privacy.covers: all` may be published.

    >>> is_covered("ser"), is_covered("intent_accuracy"), is_covered("seconds")
    (True, False, False)
    """
    return name in _COVERED


@cache
def registry() -> Mapping[str, Figure]:
    """Every registered figure by its name."""
    found: dict[str, Figure] = {}
    metrics = (f"trainables.metrics.{name}" for name in catalogue.names("metrics"))
    for module in (*_MODULES, *metrics):
        for registered in getattr(importlib.import_module(module), "FIGURES", ()):
            for figure in registered.family():
                if figure.name in found:
                    raise RuntimeError(f"the figure {figure.name} is registered twice")
                found[figure.name] = figure
    return MappingProxyType(found)


def is_public(name: str) -> bool:
    """Whether a figure may be published: it is registered, and as public. One that
    nobody registered is not, so that a new figure stays with the curator until somebody
    has said that it comes from released values or public data alone.

    >>> is_public("ser"), is_public("mia_shadow_auc"), is_public("nobody_registered_this")
    (True, False, False)
    """
    figure = registry().get(name)
    return figure is not None and figure.is_public


def curator_only() -> tuple[str, ...]:
    """Names of the registered figures that are for the curator alone, sorted, those of
    attacks as one pattern at the end. An export and a tracker leave them out; the list
    is shown so that a reader knows what is not covered by epsilon.
    """
    found = sorted(
        figure.name for figure in registry().values() if not figure.is_public
    )
    return (*(name for name in found if not name.startswith(ATTACKS)), f"{ATTACKS}*")


def label(name: str) -> str:
    """The displayed name of a figure.

    >>> label("validation_ser"), label("nobody_registered_this")
    ('validation SER', 'nobody_registered_this')
    """
    figure = registry().get(name)
    return name if figure is None else figure.label


def cost(name: str, value: float) -> float:
    """`value` with the sign that makes smaller better; lower is better by default.

    >>> cost("mauve_states", 0.75), cost("ser", 0.25)
    (-0.75, 0.25)
    """
    figure = registry().get(name)
    return -value if figure is not None and figure.better == "higher" else value


def objectives(task: str | None = None) -> tuple[str, ...]:
    """Names of the figures that a search of a task may optimise; of all tasks where it
    is None.
    """
    found = registry().values()
    return tuple(
        sorted(
            f.name
            for f in found
            if f.objective and (task is None or f.task in (None, task))
        )
    )


def listed_figures() -> tuple[str, ...]:
    """Names of the figures in tables of trials, utility first."""
    found = [figure for figure in registry().values() if figure.is_listed]
    found.sort(
        key=lambda figure: (
            figure.task is None,
            not figure.is_public,
            not figure.per_epoch,
        )
    )
    return tuple(figure.name for figure in found)
