"""One table of a sweep's trials, and one of their epochs.

Every figure about a trial that other trials are needed for is computed here, once: its
ratios to the baseline, its paired change, its ratio to the model before any private
record, and whether it is Pareto-optimal. Terminal, page, CSV, JSON and the frames of
`sweep.results` read it. pandas is imported by the functions that return a frame.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from search_spaces.paths import short
from sweep.results import select
from sweep.results.local_paths import in_text, paths_in, without_folders
from sweep.settings import Settings, from_environment
from sweep.store import sweeps as store
from sweep.store.plans import PlannedTrial, noise_at
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables.attacks import audited
from trainables.config import objectives
from trainables.config.mechanism import claims_privacy
from trainables.errors import InvalidData, InvalidInput
from trainables.figures import EPSILON, EPSILON_PAPER, LEAKAGE

if TYPE_CHECKING:
    import pandas as pd

Columns = Literal["first", "all"]
CHANGE = "delta_ser_percent"
_COMPARED = (
    LEAKAGE,
    "seconds",
    "seconds_epoch",
)  # with the baseline's, beside the headline figure


@dataclass(frozen=True, kw_only=True)
class Row:
    """One trial. `baseline` is the trial that it is compared with: of the same data, of
    the same model and seed where there is one; None for a baseline itself. `ratios` are
    its figures over the means of that baseline's seeds, by name. `prior_ratio` is its
    headline figure over that of the model that read no private record.
    """

    record: TrialRecord
    baseline: TrialRecord | None
    ratios: Mapping[str, float]
    prior_ratio: float | None
    pareto_optimal: bool

    @property
    def baseline_id(self) -> str | None:
        """The id of the baseline's trial."""
        return None if self.baseline is None else self.baseline.plan.id

    def columns(self) -> dict[str, object]:
        """What every listing has of a trial, for any task and axes."""
        record, plan = self.record, self.record.plan
        return {
            "name": plan.name,
            "variant": plan.variant,
            "baseline": plan.baseline,
            "group": plan.group,
            "status": record.status,
            "reason": record.reason,
            "taken_from": record.taken_from and record.taken_from.rpartition("@")[0],
            "epochs_done": record.epochs_done,
            "epochs": plan.epochs,
            "seconds": record.seconds,
            "epsilon": select.value(record, EPSILON),
            "epsilon_paper": select.value(record, EPSILON_PAPER),
        }

    def to_json(self) -> dict[str, object]:
        """The trial in the documents of `--json`."""
        return {
            "id": self.record.plan.id,
            **self.columns(),
            "ser_ratio": self.ratios.get("ser"),
            "metrics": self.record.metrics,
            "config": self.record.plan.fields,
            "notes": list(self.record.notes),
            "violation": self.record.violation,
            "ser_of_prior": self.prior_ratio,
        }


def rows(records: Sequence[TrialRecord]) -> list[Row]:
    """A row for each trial, in their order."""
    baselines, priors = select.baselines(records), select.priors(records)
    front = {record.plan.id for record in select.front(records)}
    names = (select.headline(records), *_COMPARED)
    means = {
        group.key: {n: mean.mean for n in names if (mean := group.spread(n))}
        for group in baselines
    }
    found = []
    for record in records:
        near = (
            None if record.plan.baseline else select.nearest_baseline(record, baselines)
        )
        reference = {} if near is None else means[near.key]
        ratios = {
            name: value / mean
            for name, mean in reference.items()
            if mean and (value := select.value(record, name)) is not None
        }
        found.append(
            Row(
                record=record,
                baseline=None if near is None else near.of_seed(record.plan.seed),
                ratios=ratios,
                prior_ratio=_prior_ratio(record, names[0], priors),
                pareto_optimal=record.plan.id in front,
            )
        )
    return found


def _prior_ratio(
    record: TrialRecord, metric: str, priors: Sequence[TrialRecord]
) -> float | None:
    """The trial's figure over that at epsilon 0 on its data: of the finished prior
    there, of the same model where there is one, or its own before its first step. None
    without either, or for a prior.
    """
    mine = select.value(record, metric)
    if mine is None or select.is_prior(record) or not record.plan.is_config:
        return None
    fields = record.plan.fields
    alike = [r for r in priors if r.plan.fields.get("data") == fields.get("data")]
    alike.sort(key=lambda r: r.plan.fields.get("model") != fields.get("model"))
    before = [select.value(r, metric) for r in alike]
    before.append(select.value(record, f"{metric}_before_training"))
    reference = next((each for each in before if each), None)
    return None if reference is None else mine / reference


def paired_change(
    folders: Sequence[Path], baselines: Sequence[Path]
) -> dict[str, float] | None:
    """The change of SER in percent over the same test records with its 95 % interval
    (`CHANGE`, `_low`, `_high`, and `delta_ser_significant`), by paired bootstrap; None
    where the records differ or the counts are missing. What is not finite is left out.

    Raises: InvalidData for a damaged file.
    """
    from trainables import saved_predictions  # SciPy, which listings do not need

    found = saved_predictions.mean_ser_change(folders, baselines)
    return found and {
        name: value for name, value in found.items() if math.isfinite(value)
    }


def change_between(
    folder: SweepFolder, found: Sequence[TrialRecord], other: Sequence[TrialRecord]
) -> dict[str, float]:
    """The `paired_change` of the mean of trials of a sweep; empty, too, where a file is
    damaged, which is said elsewhere.
    """
    with suppress(InvalidData):
        sides = (
            [folder.trial_folder(record.plan.id) for record in side]
            for side in (found, other)
        )
        return paired_change(*sides) or {}
    return {}


def read(folder: SweepFolder, *, running: bool | None = None) -> list[TrialRecord]:
    """The trials of a sweep, each with its paired change: that of the comparison at the
    end of the sweep, or, where a trial has none, computed now.
    """
    records = folder.records() if running is None else folder.records(running=running)
    found = []
    for row in rows(records):
        record, base = row.record, row.baseline
        if (
            base is not None
            and record.status.is_finished
            and CHANGE not in record.metrics
        ):
            change = change_between(folder, [record], [base])
            record = replace(record, metrics={**record.metrics, **change})
        found.append(record)
    return found


def summary(folder: SweepFolder, records: Sequence[TrialRecord]) -> dict[str, object]:
    """Every trial of a folder's `records` in their order, and the ids on the front."""
    found = rows(records)
    return {
        "name": folder.name,
        "folder": str(folder.path),
        "running": folder.is_running,
        **folder.about(),
        "trials": [row.to_json() for row in found],
        "front": [row.record.plan.id for row in found if row.pareto_optimal],
    }


def table(
    found: Sequence[Row], *, public: bool = False
) -> tuple[list[dict[str, object]], set[str]]:
    """All columns of `results` for each row, the id of the trial first, and the names
    of those that no epsilon covers. `public` leaves these out, and the folders of
    files.
    """
    made, hidden = [], set[str]()
    for row in found:
        record, plan = row.record, row.record.plan
        ratios = {f"{name}_ratio": value for name, value in row.ratios.items()}
        own = {
            "trial": plan.id,
            **row.columns(),
            "seed": plan.seed,
            "engine": plan.engine,
            **_mechanism(plan),
            **plan.values,
            "compared_with": row.baseline_id,
            **ratios,
            "ratio_to_prior": row.prior_ratio,
            "pareto_optimal": row.pareto_optimal,
            "epsilon_compared": select.compared(record, EPSILON),
        }
        secret = {
            name
            for name in (*record.metrics, EPSILON_PAPER)
            if not plan.may_publish(name) or plan.reveals_count(name)
        }
        if plan.is_config:
            claim = audited(plan.config.data.split)
            own["epsilon_claimed"] = record.metrics.get(claim)
            secret |= {"epsilon_claimed"} if claim in secret else set()
        own |= {
            name: value for name, value in record.metrics.items() if name not in own
        }
        if LEAKAGE in secret:
            secret.add(f"{LEAKAGE}_ratio")
        if plan.covers_all:
            secret |= {name for name in own if name.startswith("seconds")}
        hidden |= secret
        if public:
            places = tuple(paths_in(plan.fields))
            own = {
                name: in_text(value, places)
                if isinstance(value, str)
                else without_folders(value)
                for name, value in own.items()
                if name not in secret
            }
        made.append(own)
    return made, hidden


def framed(made: Sequence[Mapping[str, object]], hidden: set[str]) -> pd.DataFrame:
    """What `table` gives, as a frame."""
    import pandas as pd

    frame = pd.DataFrame(made, columns=None if made else ["trial"]).set_index("trial")
    frame.attrs["curator_only"] = sorted(hidden)
    return frame


def _mechanism(plan: PlannedTrial) -> dict[str, object]:
    """The constants of a private trial's mechanism."""
    if not (claims_privacy(plan.engine) and plan.is_config):
        return {}
    privacy = plan.config.privacy
    return {
        "noise_multiplier": plan.noise_multiplier,
        "max_grad_norm": privacy.max_grad_norm,
        "decay": privacy.noise_decay.kind,
        "decay_tau": privacy.noise_decay.tau,
    }


def epochs_frame(folder: SweepFolder, *, public: bool = False) -> pd.DataFrame:
    """One row for each finished epoch of each trial: its figures and its noise.
    `public` as in `table`.
    """
    import pandas as pd

    made = []
    for record in folder.records():
        plan = record.plan
        for row in folder.epochs(plan.id):
            shown = {
                name: value
                for name, value in row["metrics"].items()
                if not public or plan.may_publish(name)
            }
            name = in_text(plan.name, paths_in(plan.fields)) if public else plan.name
            head = {"trial": plan.id, "name": name, "epochs_done": row["epochs_done"]}
            if not (public and plan.covers_all):
                head["seconds"] = row["seconds"]
            noise = noise_at(plan, int(row["epochs_done"]))
            made.append({**head, **shown, **noise})
    return pd.DataFrame(made, columns=None if made else ["trial"]).set_index("trial")


def results(
    name: str, *, columns: Columns = "first", settings: Settings | None = None
) -> pd.DataFrame:
    """The trials of a sweep, which may be running: one row each, by its id.

    With `columns="first"`, the axes by their paths and the twenty columns that are read
    most, the same in every sweep of a task; a figure that no trial has is missing
    there. With `"all"`, every column that a trial has: the plan, the ratios to the
    baseline and to the model before any private record, and every figure by its name.
    The attribute `curator_only` of the frame names the columns that no epsilon covers.

    Raises: InvalidInput for a name that no sweep has, or other columns.
    """
    if columns not in (known := get_args(Columns)):
        raise InvalidInput(f"expected columns {' or '.join(known)}, got {columns!r}")
    folder = store.open_sweep((settings or from_environment()).home, name)
    found = rows(read(folder))
    made, hidden = table(found)
    frame = framed(made, hidden)
    if columns == "all":
        return frame
    first = frame.reindex(columns=_first_columns([row.record for row in found]))
    first.attrs["curator_only"] = sorted(hidden.intersection(first))
    return first


def _first_columns(records: Sequence[TrialRecord]) -> list[str]:
    """The axes and the columns that are read most; the figures are those of the task."""
    task = records[0].plan.task if records else objectives.default_task()
    axes = dict.fromkeys(path for record in records for path in record.plan.values)
    return [
        *("name", *axes, "variant", "status", "reason"),
        *(EPSILON, "delta", "noise_multiplier"),
        *objectives.columns(task),
        *(LEAKAGE, "pareto_optimal"),
        *("seed", "epochs_done", "seconds", "taken_from"),
    ]


def csv_text(frame: pd.DataFrame) -> str:
    """A frame as CSV, its index first. Infinity is `inf`, a missing value is empty."""
    return str(frame.reset_index().map(_cell).to_csv(index=False, lineterminator="\n"))


def _cell(value: object) -> object:
    # A spreadsheet interprets text with this beginning as a formula.
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        return f"'{value}"
    if isinstance(value, bool):
        return str(value).lower()
    return short(value) if isinstance(value, dict | list) else value
