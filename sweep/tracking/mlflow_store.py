"""Copies sweeps to MLflow: a parent run for a sweep, a child run for each trial.

Everything is read from the sweep's folder and written idempotently: a run is identified
by its tags (`sweep.id`, `sweep.trial`), a metric by its step and time. A call takes
MLflow ten milliseconds and more, so a trial's news are one batch, and what the store
has is read once.
"""

import json
import logging
import math
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from dashboards import report
from search_spaces.paths import label, short
from sweep.results import select
from sweep.results.privacy_cards import JSON, MARKDOWN
from sweep.results.report_files import gather
from sweep.results.tables.trials import violations
from sweep.serve import SHARED_VIEW
from sweep.settings import Settings, first_line, hide_passwords, sqlite_file
from sweep.store.files import indented_json
from sweep.store.plans import PlannedTrial, flat
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from sweep.tracking import tables
from sweep.tracking.delivery import StoreAway, may_pass
from trainables import figures
from trainables.cards.page import to_markdown
from trainables.config.mechanism import claims_privacy
from trainables.errors import InvalidInput, StorageFailed
from trainables.figures import EPSILON, EPSILON_PAPER, LEAKAGE
from trainables.io import disk
from trainables.io.documents import format_yaml
from trainables.io.files import make_folder

CURATOR = "curator_only"  # the tag that names figures for the curator
MIA_AUC, _TPR = "mia_auc", "mia_tpr_at_1_percent"
_OF_PAPER = "mia_shadow_auc"  # of the paper's attack, with a shadow model
# In this order, before other figures of the task that are in tables or that a search
# may optimise.
_OF_NOISE = ("delta", "noise_multiplier")
_FIRST = (
    *("ser", "icer", "slot_f1", LEAKAGE, _OF_PAPER, EPSILON, EPSILON_PAPER),
    *("epsilon_lower_bound", *_OF_NOISE, "seconds"),
)
_NAMES = {
    LEAKAGE: MIA_AUC,
    _OF_PAPER: f"{MIA_AUC}_paper",
    "icer": "intent_error",
    EPSILON_PAPER: "paper_epsilon",
}
READING = (
    "`epsilon` is a guarantee of the code that ran; `paper_epsilon` is the paper's"
    " formula and none. `mia_auc` is the MIA-AUC: the AUC of the strongest"
    f" membership-inference attack, `{MIA_AUC}_paper` that of the paper's, with a"
    f" shadow model, and `{_TPR}` is that attack's true-positive rate at 1 % false"
    " positives. No epsilon covers the figures that the tag `curator_only` names, so"
    " they are for the curator alone."
)
ABOUT_EXPERIMENT = f"Every sweep is a run; its trials are its child runs. {READING}"
EXPERIMENT = "sweeps"
Fields = Mapping[str, object]
# Written last: the delivered state of a trial, and the time of its last delivered
# epoch.
_STATE, _EPOCH = "sweep.delivered", "sweep.delivered_epoch"
_MOST_COLUMNS = 12  # of axes; the tag of a view has at most 5,000 characters
_BATCH = 100  # params that MLflow takes at once
_MOST_RUNS = 50_000  # that MLflow returns at once
# Characters. A server takes a request of at most 1 MB, in which one of them is up to
# six bytes.
_LONGEST_NAME, _LONGEST_PARAM, _LONGEST_TAG = 250, 500, 5000


class _Known(NamedTuple):
    """A run with what was logged, in less memory than MLflow's own object."""

    id: str
    started: int  # milliseconds
    tags: dict[str, str]
    metrics: dict[str, float]


class Tracker:
    """Writes sweeps to one MLflow store. Not for several threads at once."""

    def __init__(self, settings: Settings) -> None:
        """Open the store, making it where it is a new SQLite file.

        Raises: StoreAway where it does not answer; StorageFailed where its disk does
        not; InvalidInput where it cannot be used: its driver is missing, its experiment
        is deleted or keeps its artifacts in another home.
        """
        self._shown = uri = hide_passwords(settings.tracking_uri)
        self._file = sqlite_file(settings.tracking_uri)
        # An unreachable server must not delay the sweep: delivery later is the retry.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        os.environ.setdefault(
            "MLFLOW_LOGGING_LEVEL", "ERROR"
        )  # what it warns of, it raises, too
        logging.getLogger("alembic").setLevel(logging.WARNING)
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError  # which MLflow's client lets through

        # It prints a traceback of each failure of the database, which is raised as
        # well.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
        self._settings = settings
        self._is_remote = settings.tracking_uri.startswith(
            ("http://", "https://", "databricks")
        )
        self._sweep = ""  # the id of the sweep whose runs these are, by trial
        self._runs: dict[str, _Known] = {}
        try:
            make_folder(settings.home)
            with nullcontext() if self._is_remote else tables.alone_with(settings):
                self.client = self._open()
                self.experiment_id = self._experiment()
        except ImportError as problem:
            raise InvalidInput(
                f"expected tracking_uri with an installed driver, got {uri}"
                f" ({first_line(problem)})"
            ) from None
        except (MlflowException, SQLAlchemyError, OSError) as problem:
            failure = (
                disk.failure_of(problem, self._file.parent) if self._file else None
            )
            if failure is not None:
                raise StorageFailed(f"{failure}: run the same command again") from None
            raise StoreAway(
                hide_passwords(
                    f"tracking store {uri} does not answer ({first_line(problem)})"
                )
            ) from None

    def deliver(
        self,
        folder: SweepFolder,
        trial_ids: Collection[str] | None = None,
        count: Callable[[int, int], object] = lambda number, total: None,
    ) -> None:
        """Update the sweep's runs to the state on disk: those of the trials `trial_ids`
        of a sweep that runs, or those of every trial that has begun, and the counts,
        the best trial and the report of a sweep that has ended. `count` is called
        before each trial, with its number and that of all.

        Raises: whatever MLflow or `count` does; what is refused of one trial after the
        others.
        """
        about, running = folder.about(), trial_ids is not None
        if self._sweep != about["id"]:  # what MLflow has is read once
            runs = self.runs_of(about["id"])
            if "" not in runs:
                tags = {
                    "sweep.name": folder.name,
                    "sweep.source": folder.space().source,
                    "sweep.id": about["id"],
                    "mlflow.source.name": "sweep",
                    "mlflow.source.git.commit": about["git_commit"],
                    **{
                        f"version.{name}": words
                        for name, words in about["versions"].items()
                    },
                }
                runs[""] = self.create(folder.name, started=about["created"], tags=tags)
                self.client.set_experiment_tag(
                    self.experiment_id,
                    view_tag(about["id"]),
                    view_of(about["id"], folder.records()),
                )
            run = runs[""]
            self.client.update_run(run.id, status="RUNNING")
            self.log(run, tags={"sweep.status": "running"})
            if not self.client.list_artifacts(run.id):
                self.client.log_text(
                    run.id, format_yaml(folder.state().space), "space.yaml"
                )
            self._runs, self._sweep = runs, about["id"]
        records = [
            folder.record(trial, running=running)
            for trial in folder.plan().trials
            if trial_ids is None or trial.id in trial_ids
        ]
        refused: Exception | None = None
        for number, record in enumerate(records, start=1):
            count(number, len(records))
            try:
                if record.status.has_begun:
                    self._deliver_trial(folder, record)
            except Exception as problem:
                if may_pass(problem):
                    raise
                refused = refused or problem
        if not running:
            finished = [record for record in records if record.status.is_finished]
            is_over = not any(record.status.is_pending for record in records)
            found, status = summary_of(records), "FINISHED" if is_over else "KILLED"
            tags = {
                "sweep.status": status.lower(),
                "mlflow.note.content": READING,
                CURATOR: f"best_{MIA_AUC}" if f"best_{MIA_AUC}" in found else "",
            }
            when = max(
                (r.ended_at or 0.0 for r in finished), default=float(about["created"])
            )
            run = self._runs[""]
            self.log(run, metrics=_metrics(found, step=0, when=when), tags=tags)
            self.client.set_terminated(run.id, status=status, end_time=int(1000 * when))
            for place, corpus in enumerate(
                select.by_corpus(finished) if is_over else (), start=1
            ):
                page = gather(folder, epsilon_max=8.0, corpus=corpus, public=True)
                name = "report.html" if place == 1 else f"report-{place}.html"
                self.client.log_text(run.id, report.html(page), name)
        if refused is not None:
            raise refused

    def delete(self, folder: SweepFolder) -> None:
        """Delete the sweep's runs (MLflow keeps deleted runs until `mlflow gc`)."""
        sweep_id = folder.about()["id"]
        for run in self.runs_of(sweep_id).values():
            self.client.delete_run(run.id)
        if view_tag(sweep_id) in self.client.get_experiment(self.experiment_id).tags:
            self.client.delete_experiment_tag(self.experiment_id, view_tag(sweep_id))

    def runs_of(self, sweep_id: str) -> dict[str, _Known]:
        """The runs of a sweep as MLflow has them, by the trial's id; that of the sweep
        is "".
        """
        mine = f"tags.`sweep.id` = '{sweep_id}'"
        found = self.client.search_runs(
            [self.experiment_id], mine, max_results=_MOST_RUNS
        )
        return {
            run.data.tags.get("sweep.trial", ""): _Known(
                run.info.run_id,
                run.info.start_time,
                dict(run.data.tags),
                dict(run.data.metrics),
            )
            for run in found
        }

    def create(self, name: str, *, started: float, tags: Fields) -> _Known:
        """Create a run, whose `tags` never change."""
        when, known = int(1000 * started), _tags(tags, {})
        run = self.client.create_run(
            self.experiment_id, when, known, name[:_LONGEST_NAME]
        )
        return _Known(run.info.run_id, when, {}, {})

    def log(
        self,
        run: _Known,
        *,
        params: Fields | None = None,
        metrics: Sequence[Any] = (),
        tags: Fields,
    ) -> None:
        """Log parameters, metrics and tags, each cut to MLflow's limits. The tags come
        last, because they mark the rest as complete.
        """
        from mlflow.entities import Param, RunTag

        given = [
            Param(accepted(key), _in_utf8(value)[:_LONGEST_PARAM])
            for key, value in (params or {}).items()
        ]
        kept = _tags(tags, run.tags)
        last = [RunTag(*tag) for tag in kept.items()]
        is_one = (
            len(given) + len(metrics) <= _BATCH
        )  # which MLflow writes in this order
        self.client.log_batch(run.id, metrics, given, last if is_one else [])
        if not is_one:
            self.client.log_batch(run.id, tags=last)
        run.tags.update(kept)
        run.metrics.update({metric.key: metric.value for metric in metrics})

    # ---- the store

    def _open(self) -> Any:
        """The client. A database is asked once before, because MLflow asks for 100
        seconds.
        """
        from mlflow import MlflowClient
        from sqlalchemy import NullPool, create_engine

        uri = self._settings.tracking_uri
        if not self._is_remote:
            tables.make(self._settings)
            create_engine(uri, poolclass=NullPool).connect().close()
        return MlflowClient(tracking_uri=uri)

    def _experiment(self) -> str:
        """The id of the experiment of sweeps, which is made where it is missing.

        Raises: InvalidInput for a deleted one, or one whose artifacts, those for the
        curator among them, would be written into another folder than the home's.
        """
        here = self._settings.artifacts_dir
        found = self.client.get_experiment_by_name(EXPERIMENT)
        if found is None:
            tags = {
                "mlflow.note.content": ABOUT_EXPERIMENT,
                # pages show training
                "mlflow.experimentKind": "custom_model_development",
            }
            new = None if self._is_remote else here.as_uri()
            return str(self.client.create_experiment(EXPERIMENT, new, tags))
        uri, number = self._shown, found.experiment_id
        named = f"MLflow's experiment {EXPERIMENT!r} (id {number}) in {uri}"
        command = f"MLFLOW_TRACKING_URI='{uri}' mlflow experiments"
        if found.lifecycle_stage != "active":
            raise InvalidInput(
                f"{named} is deleted: `{command} restore --experiment-id {number}`"
                f" restores it"
            )
        place = urlsplit(str(found.artifact_location))
        is_local = not self._is_remote and place.scheme in (
            "",
            "file",
            "mlflow-artifacts",
        )
        if is_local and Path(unquote(place.path)).resolve() != here.resolve():
            raise InvalidInput(
                f"{named} keeps its artifacts in {found.artifact_location}, expected"
                f" {here}: `{command} rename --experiment-id {number} --new-name"
                f" {EXPERIMENT}-before` makes room for a new one, to which `sweep"
                " resume` delivers its sweep again"
            )
        return str(number)

    # ---- a sweep

    def _deliver_trial(self, folder: SweepFolder, record: TrialRecord) -> None:
        """Update a trial's run; an ended one gets its config and any card and
        figures.
        """
        plan, rows, status = record.plan, folder.epochs(record.plan.id), record.status
        panel = folder.state().trial(plan.id).panel
        compared = panel and panel["time"]
        state = f"{status}, compared at {compared}" if compared else status.value
        run = self._runs.get(plan.id)
        if run is None:
            begun = (
                rows[0]["time"] - rows[0]["seconds"]
                if rows
                else time.time() - record.seconds
            )
            own = {
                "mlflow.parentRunId": self._runs[""].id,
                "engine": plan.engine,
                "sweep.trial": plan.id,
                "sweep.name": folder.name,
                "sweep.baseline": str(plan.baseline).lower(),
                "sweep.group": plan.group,
                "sweep.id": self._sweep,
            }
            run = self._runs[plan.id] = self.create(plan.name, started=begun, tags=own)
        known, run_id = run.tags, run.id
        is_changed = state != known.get(_STATE)
        # Those of a trial that began anew stand beside the epochs that no longer count.
        times, last = [str(row["time"]) for row in rows], known.get(_EPOCH, "")
        new = rows[times.index(last) + 1 :] if last in times else rows
        if not is_changed and not new:
            return
        curves, metrics = learning_curves(plan.task), list[Any]()
        for row in new:
            found = {name: row["metrics"].get(name) for name in curves}
            metrics += _metrics(found, step=row["epochs_done"], when=row["time"])
        tags = {"sweep.status": status.value, "sweep.reason": ""}
        if status.is_over:
            source = folder.trial_folder(plan.id)
            files: dict[str, str] = {}
            # Of one that was only compared since, the rest is there.
            if not (compared and known.get(_STATE, "").startswith(status)):
                files["config.yaml"] = (source / "config.yaml").read_text(
                    encoding="utf-8"
                )
                if (card := record.privacy) is not None:  # its fields, not the file
                    files |= {
                        JSON: indented_json(card.to_dict()),
                        MARKDOWN: to_markdown(card),
                    }
                # MLflow's duration is that of the work: a paused trial has not worked
                # while it waited.
                self.client.set_terminated(
                    run_id,
                    status="FAILED" if status is TrialStatus.FAILED else "FINISHED",
                    end_time=run.started + int(1000 * record.seconds),
                )
            with TemporaryDirectory() as place:  # one call for all of them
                for name, content in files.items():
                    Path(place, name).write_text(content, encoding="utf-8")
                self.client.log_artifacts(run_id, place)
            shown = headline(record) if status.is_finished else {}
            final = {
                key: v for key, (_, v) in shown.items() if v != run.metrics.get(key)
            }
            when = compared or record.ended_at or time.time()
            # First, because MLflow shows figures in the order in which they came.
            metrics = [*_metrics(final, step=record.epochs_done, when=when), *metrics]
            tags |= result_tags(record, shown)
        elif is_changed:
            shown_as = "RUNNING" if status is TrialStatus.RUNNING else "KILLED"
            self.client.update_run(run_id, status=shown_as)
        tags |= {_STATE: state, _EPOCH: times[-1] if rows else ""}
        params = {} if _STATE in known else params_of(plan)
        self.log(run, params=params, metrics=metrics, tags=tags)


def _metrics(found: Mapping[str, float | None], *, step: int, when: float) -> list[Any]:
    """Figures for MLflow, except infinities and missing values, unknown to it."""
    from mlflow.entities import Metric

    return [
        Metric(name, value, int(1000 * when), step)
        for name, value in found.items()
        if value is not None and math.isfinite(value)
    ]


def _tags(given: Fields, known: Mapping[str, str]) -> dict[str, str]:
    """Tags within MLflow's limits, an empty one only where it replaces a known one."""
    return {
        key: _in_utf8(value)[:_LONGEST_TAG]
        for key, value in given.items()
        if value not in (None, "") or key in known
    }


def _in_utf8(value: Any) -> str:
    """The value in characters that every store keeps."""
    return str(value).replace("\0", "").encode("utf-8", "replace").decode()


# ---- names, figures and words of a run; pure


def metric_name(figure: str) -> str:
    """A figure's name in MLflow; `best_` is that of the epoch whose weights are kept.

    >>> [metric_name(name) for name in ("ser", "leakage", "validation_ser")]
    ['ser', 'mia_auc', 'best_validation_ser']
    """
    known = figures.registry().get(figure)
    is_curve = known is not None and known.per_epoch and known.objective
    is_curve |= figure == figures.RELEASED_VALIDATION
    return f"best_{figure}" if is_curve else _NAMES.get(figure, figure)


def learning_curves(task: str) -> list[str]:
    """The public figures that are known after each epoch and that a search may
    optimise, or that choose where every record is covered.
    """
    known = figures.registry()
    names = (*figures.objectives(task), figures.RELEASED_VALIDATION)
    own = (known[name] for name in names)
    return [
        each.name
        for each in own
        if each.per_epoch and each.is_public and each.task in (None, task)
    ]


def headline(record: TrialRecord) -> dict[str, tuple[str, float]]:
    """The headline figures of a trial by their names in MLflow, as (registered name,
    value). A noise multiplier or a delta that the config states is a parameter and no
    result.
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
            rate = (
                f"mia_{best.attack}_tpr_1pct"
                if best is not None and not best.inverted
                else ""
            )
            if (share := record.metrics.get(rate)) is not None:
                found[_TPR] = rate, share
    return found


def summary_of(records: Sequence[TrialRecord]) -> dict[str, float]:
    """The figures of the best trial. Pure."""
    finished = [record for record in records if record.status.is_finished]
    found: dict[str, float] = {}
    with suppress(InvalidInput):  # no figure that all have, or no trial
        # As everywhere: by what was found on validation records, where that is known.
        best, *others = select.best_of_each(select.finished(finished) or finished)
        for name in (
            select.headline(records),
            LEAKAGE,
            EPSILON,
            EPSILON_PAPER,
            "seconds",
        ):
            value = select.value(best, name)
            # The best of one corpus alone.
            if value is not None and not others and not best.plan.reveals_count(name):
                found[f"best_{metric_name(name)}"] = value
    return found


def view_tag(sweep_id: str) -> str:
    """The tag of the experiment with the shared view of a sweep, which MLflow's page
    shows for `viewStateShareKey=SWEEP_ID` in its address.
    """
    return f"{SHARED_VIEW}{sweep_id}"


def view_of(sweep_id: str, records: Sequence[TrialRecord]) -> str:
    """What MLflow's page shows of a sweep: its trials, the best first, with their
    headline figures and axes as columns. In the form of MLflow 3, in JSON.
    """
    main = select.headline(records)
    shown = [main, EPSILON, *((LEAKAGE, _OF_PAPER) if main == "ser" else ()), "seconds"]
    axes = dict.fromkeys(
        label(path) for record in records for path in record.plan.values
    )
    columns = [
        *(f"metrics.`{metric_name(name)}`" for name in shown),
        *(f"params.`{accepted(axis)}`" for axis in [*axes][:_MOST_COLUMNS]),
    ]
    return json.dumps(
        {
            "searchFilter": f"tags.`sweep.id` = '{sweep_id}'"
            " and tags.`sweep.trial` != ''",
            "orderByKey": f"metrics.`{metric_name(main)}`",
            "orderByAsc": figures.cost(main, 1.0) > 0,
            "selectedColumns": columns,
            "columnOrder": columns,
        }
    )


def params_of(plan: PlannedTrial) -> dict[str, object]:
    """A trial's axes by their short names, and its config by dotted paths without
    missing values.
    """
    fields = dict(plan.fields)
    if not claims_privacy(
        plan.engine
    ):  # it has no mechanism; its defaults would only mislead
        fields.pop("privacy", None)
    axes = {label(path): short(value) for path, value in plan.values.items()}
    return axes | {
        path: ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        for path, value in flat(fields).items()
        if value is not None
    }


def result_tags(
    record: TrialRecord, shown: Mapping[str, tuple[str, float]]
) -> dict[str, str]:
    """What an ended trial's run says beside the figures `shown`."""
    hidden = [
        key for key, (name, _) in shown.items() if not record.plan.may_publish(name)
    ]
    reason, origin = public_reason(record), record.taken_from
    return {
        **({"sweep.taken_from": origin.rpartition("@")[0]} if origin else {}),
        "sweep.reason": reason,
        f"{CURATOR}.reason": "" if reason == record.reason else record.reason or "",
        f"{CURATOR}.violation": "; ".join(violations([record])),
        f"{CURATOR}.notes": "; ".join(record.notes),  # they speak of attacks
        CURATOR: ", ".join(sorted(hidden)),
        # MLflow has no infinity: such a figure is a tag and no metric.
        **{key: "inf" for key, (_, value) in shown.items() if math.isinf(value)},
    }


def public_reason(record: TrialRecord) -> str:
    """Why a trial ended as it did, as far as that may be public: the kind of an error,
    whose words may quote what no epsilon covers, such as a norm of gradients; the words
    of a budget unless their figures follow from a number of records that is not
    declared.
    """
    if record.reason and record.status is TrialStatus.FAILED:
        kind = re.match(r"[A-Z]\w+(?=: | at )", record.reason)
        return f"failed with {kind[0]}" if kind else "failed"
    return "" if record.plan.reveals_count("epsilon_paper") else record.reason or ""


def accepted(name: str) -> str:
    """The path of a field, which may end with a user's own words, as every MLflow
    accepts it.

    >>> accepted("privacy.delta"), accepted("model.options.a@b#c")
    ('privacy.delta', 'model.options.a-40-b-23-c')
    """
    return re.sub(r"[^\w. ]", lambda sign: f"-{ord(sign[0]):x}-", name)[:250]
