"""An opened MLflow store: its experiment, and runs that are found by their tags."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sweep.settings import Settings, first_line, hide_passwords, sqlite_file
from sweep.store.files import number
from sweep.tracking.connection import StoreAway, require_answer
from sweep.tracking.note import EXPERIMENT as ABOUT_EXPERIMENT
from sweep.tracking.text import accepted, grouped_key, metric_key
from trainables.errors import InvalidInput, StorageFailed
from trainables.system import disk
from trainables.system.locks import alone

EXPERIMENT = "sweeps"
_BATCH, _METRICS = 90, 800  # MLflow takes at most 100 params or tags and 1,000 items a call
_MOST_RUNS = 50_000  # that MLflow returns at once
# Characters. A server takes a request of at most 1 MB, in which one of them is up to six bytes.
_LONGEST_NAME, _LONGEST_PARAM, _LONGEST_TAG = 250, 500, 5000
_TRIES = 5  # to open a database: 3 seconds


@dataclass
class Batch:
    """The data of one logging call to a run."""

    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: list[Any] = field(default_factory=list)
    tags: dict[str, Any] = field(default_factory=dict)

    def add(self, metrics: Mapping[str, Any], *, step: int, when: float) -> None:
        """Add figures under their keys, except infinities and missing values, unknown to MLflow."""
        from mlflow.entities import Metric

        stamp = milliseconds(when)
        self.metrics += [
            Metric(accepted(grouped_key(metric_key(name))), value, stamp, step)
            for name, given in metrics.items()
            if (value := number(given)) is not None and math.isfinite(value)
        ]


class Store:
    """The operations of a client. `client` and `experiment_id` are for rare ones."""

    def __init__(self, settings: Settings) -> None:
        """Open the store, making it where it is a new SQLite file.

        Raises: StoreAway where it does not answer; StorageFailed where its disk does not;
        InvalidInput where it cannot be used: its driver or credentials are missing, its experiment
        is deleted or keeps its artifacts in another home.
        """
        uri = hide_passwords(settings.tracking_uri)
        require_answer(settings.tracking_uri)
        # An unreachable server must not delay the sweep: few retries, and delivery later.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "ERROR")  # what it warns of, it raises, too
        logging.getLogger("alembic").setLevel(logging.WARNING)
        from mlflow.exceptions import MlflowException
        from mlflow.store.db import utils as databases
        from mlflow.tracking import MlflowClient
        from sqlalchemy.exc import SQLAlchemyError  # which MlflowClient lets through

        databases.MAX_RETRY_COUNT = _TRIES  # ten by default, which take 100 seconds
        # It prints a traceback of each failure of the database, which is raised as well.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
        self._error = MlflowException
        self._settings = settings
        try:
            with _alone(settings):
                self._make_private_files()
                self.client = MlflowClient(tracking_uri=settings.tracking_uri)
                self.experiment_id = self._experiment()
        except ImportError as problem:
            raise InvalidInput(
                f"expected tracking_uri with an installed driver, got {uri} ({first_line(problem)})"
            ) from None
        except (MlflowException, SQLAlchemyError, OSError) as problem:
            file = sqlite_file(settings.tracking_uri)
            failure = disk.failure_of(problem, file.parent) if file is not None else None
            if failure is not None:
                raise StorageFailed(f"{failure}: run the same command again") from None
            if uri.startswith("databricks") and "credential" in str(problem):
                raise InvalidInput(
                    f"expected tracking_uri with credentials ($DATABRICKS_HOST and"
                    f" $DATABRICKS_TOKEN, or a profile), got {uri} without"
                ) from None
            raise StoreAway(
                hide_passwords(f"tracking store {uri} does not answer ({first_line(problem)})")
            ) from None

    def find(self, sweep_id: str, trial_id: str) -> str | None:
        """The run of a trial ("" for the sweep itself), None where there is none."""
        found = self._search(f"tags.sweep_id = '{sweep_id}' and tags.trial = '{trial_id}'")
        return str(found[0].info.run_id) if found else None

    def create(
        self, sweep_id: str, trial_id: str, *, name: str, started: float, tags: Mapping[str, Any]
    ) -> str:
        """Create a run that `find` finds."""
        own = {"sweep_id": sweep_id, "trial": trial_id}
        run = self.client.create_run(
            self.experiment_id,
            start_time=milliseconds(started),
            run_name=name[:_LONGEST_NAME],
            tags={tag.key: tag.value for tag in _tags(tags)} | own,
        )
        return str(run.info.run_id)

    def runs_of(self, sweep_id: str) -> Sequence[Any]:
        """Every run of a sweep's trials, with tags and newest metrics."""
        return self._search(f"tags.sweep_id = '{sweep_id}' and tags.trial != ''")

    def _search(self, query: str) -> Sequence[Any]:
        found: Sequence[Any] = self.client.search_runs(
            [self.experiment_id], query, max_results=_MOST_RUNS
        )
        return found

    def log(self, run_id: str, batch: Batch) -> None:
        """Log parameters, metrics and tags, the tags last, each cut to MLflow's limits."""
        from mlflow.entities import Param

        params = [
            Param(accepted(key), _text(value)[:_LONGEST_PARAM])
            for key, value in batch.params.items()
        ]
        tags = _tags(batch.tags)
        metrics = batch.metrics
        while any(map(len, (params, metrics, tags))):
            # Tags last, because they mark the rest as complete.
            last = len(params) <= _BATCH and len(metrics) <= _METRICS
            self.client.log_batch(
                run_id,
                metrics=metrics[:_METRICS],
                params=params[:_BATCH],
                tags=tags[:_BATCH] if last else [],
            )
            params, metrics = params[_BATCH:], metrics[_METRICS:]
            tags = tags[_BATCH:] if last else tags

    def end(self, run_id: str, status: str, *, when: float) -> None:
        """End a run."""
        self.client.set_terminated(run_id, status=status, end_time=milliseconds(when))

    def _make_private_files(self) -> None:
        """Make the database and the folder of artifacts before MLflow does, which makes them
        readable by everyone in a process with the usual umask, such as a notebook's.
        """
        if (file := sqlite_file(self._settings.tracking_uri)) is not None and file.parent.is_dir():
            file.touch(mode=0o600)
        if not self._is_remote:
            self._settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._settings.artifacts_dir.mkdir(mode=0o700, exist_ok=True)

    @property
    def _is_remote(self) -> bool:
        """Whether the store is a server, which has a place for artifacts."""
        return self._settings.tracking_uri.startswith(("http://", "https://", "databricks"))

    def _experiment(self) -> str:
        found = self.client.get_experiment_by_name(EXPERIMENT)
        if found is None:
            found = self.client.get_experiment(self._make_experiment())
        self._require_usable(found)
        wanted = {
            "mlflow.note.content": ABOUT_EXPERIMENT,
            "mlflow.experimentKind": "custom_model_development",  # its pages show training
        }
        for key, text in wanted.items():
            if found.tags.get(key) != text:
                self.client.set_experiment_tag(found.experiment_id, key, text)
        return str(found.experiment_id)

    def _require_usable(self, found: Any) -> None:
        """Raises: InvalidInput for a deleted experiment, or one whose artifacts, those for the
        curator among them, would be written into another folder than the home's.
        """
        uri = hide_passwords(self._settings.tracking_uri)
        named = f"MLflow's experiment {EXPERIMENT!r} (id {found.experiment_id}) in {uri}"
        command = f"MLFLOW_TRACKING_URI='{uri}' mlflow experiments"
        if found.lifecycle_stage != "active":
            raise InvalidInput(
                f"{named} is deleted: `{command} restore --experiment-id {found.experiment_id}`"
                " restores it"
            )
        here, place = self._settings.artifacts_dir, urlsplit(str(found.artifact_location))
        if self._is_remote or place.scheme not in ("", "file", "mlflow-artifacts"):
            return
        there = Path(unquote(place.path))
        if place.scheme == "mlflow-artifacts" or there.resolve() != here.resolve():
            link = f"`ln -s '{here.parent}' '{there.parent}'` keeps its runs whole, or "
            raise InvalidInput(
                f"{named} keeps its artifacts in {found.artifact_location}, expected {here}:"
                f" {'' if there.parent.exists() else link}`{command} rename --experiment-id"
                f" {found.experiment_id} --new-name {EXPERIMENT}-before` makes room for a new one,"
                " to which `sweep resume` delivers its sweep again"
            )

    def _make_experiment(self) -> str:
        place = None if self._is_remote else self._settings.artifacts_dir.as_uri()
        try:
            return str(self.client.create_experiment(EXPERIMENT, artifact_location=place))
        except self._error:
            found = self.client.get_experiment_by_name(EXPERIMENT)  # made by another just now
            if found is None:
                raise
            return str(found.experiment_id)


def _tags(given: Mapping[str, Any]) -> list[Any]:
    """Tags within MLflow's limits. An empty one would be a line of nothing on the run's page."""
    from mlflow.entities import RunTag

    known = {key: value for key, value in given.items() if value not in (None, "")}
    return [RunTag(accepted(key), _text(value)[:_LONGEST_TAG]) for key, value in known.items()]


def _text(value: Any) -> str:
    """The value in characters that every store keeps."""
    return str(value).replace("\0", "").encode("utf-8", "replace").decode()


def milliseconds(when: float) -> int:
    """MLflow's time in milliseconds; `when` in seconds since the Unix epoch."""
    return int(when * 1000)


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Allow one process of this home at a time, because MLflow fails where two processes create
    the tables of a SQLite store.
    """
    if not settings.tracking_uri.startswith("sqlite:"):
        yield
        return
    settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with alone(settings.home / ".mlflow.lock"):
        yield
