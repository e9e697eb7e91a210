"""An opened MLflow store: its experiment, and runs that are found by their tags."""

from __future__ import annotations

import logging
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sweep.settings import Settings, first_line, hide_passwords, sqlite_file
from sweep.tracking.delivery import StoreAway
from sweep.tracking.text import ABOUT_EXPERIMENT, accepted
from trainables.errors import InvalidInput, StorageFailed
from trainables.system import disk
from trainables.system.locks import alone

EXPERIMENT = "sweeps"
Fields = Mapping[str, object]
_BATCH = 100  # params that MLflow takes at once
_MOST_RUNS = 50_000  # that MLflow returns at once
# Characters. A server takes a request of at most 1 MB, in which one of them is up to six bytes.
_LONGEST_NAME, _LONGEST_PARAM, _LONGEST_TAG = 250, 500, 5000


@dataclass(frozen=True)
class Run:
    """A run as the store has it: when it began, in milliseconds, its tags and newest metrics."""

    id: str
    started: int
    tags: dict[str, str]
    metrics: dict[str, float]


class Store:
    """An MLflow client with the experiment of sweeps."""

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
        from sqlalchemy.exc import SQLAlchemyError  # which MLflow's client lets through

        # It prints a traceback of each failure of the database, which is raised as well.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
        self.error: type[Any] = MlflowException
        self._settings = settings
        self._is_remote = settings.tracking_uri.startswith(("http://", "https://", "databricks"))
        try:
            settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            # MLflow fails where two processes create the tables of a database.
            with alone(settings.home / ".mlflow.lock"):
                self.client = self._open()
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

    def runs_of(self, sweep_id: str) -> list[Run]:
        """The runs of a sweep."""
        mine = f"tags.`sweep.id` = '{sweep_id}'"
        found = self.client.search_runs([self.experiment_id], mine, max_results=_MOST_RUNS)
        return [_run(each) for each in found]

    def create(self, name: str, *, started: float, tags: Fields) -> Run:
        """Create a run."""
        known = {tag.key: tag.value for tag in _tags(tags)}
        return _run(
            self.client.create_run(
                self.experiment_id, milliseconds(started), known, name[:_LONGEST_NAME]
            )
        )

    def log(
        self, run: Run, *, params: Fields | None = None, metrics: Sequence[Any] = (), tags: Fields
    ) -> None:
        """Log parameters, metrics and tags, each cut to MLflow's limits; an empty tag is removed.
        The tags come last, because they mark the rest as complete.
        """
        from mlflow.entities import Param

        given = [Param(accepted(k), _text(v)[:_LONGEST_PARAM]) for k, v in (params or {}).items()]
        kept = _tags(tags)
        for key in (tags.keys() & run.tags.keys()) - {tag.key for tag in kept}:
            self.client.delete_tag(run.id, key)
            del run.tags[key]
        is_one = len(given) + len(metrics) <= _BATCH  # which MLflow writes in this order
        self.client.log_batch(run.id, metrics, given, kept if is_one else [])
        if not is_one:
            self.client.log_batch(run.id, tags=kept)
        run.tags.update({tag.key: tag.value for tag in kept})
        run.metrics.update({metric.key: metric.value for metric in metrics})

    def _open(self) -> Any:
        """The client. Files are made before MLflow makes them, which would let everyone read them
        where the umask does, and a database is asked once, because MLflow asks for 100 seconds.
        """
        from mlflow import MlflowClient
        from sqlalchemy import NullPool, create_engine

        uri = self._settings.tracking_uri
        if not self._is_remote:
            self._settings.artifacts_dir.mkdir(mode=0o700, exist_ok=True)
            if (file := sqlite_file(uri)) is not None:
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                file.touch(mode=0o600)
            create_engine(uri, poolclass=NullPool).connect().close()
        return MlflowClient(tracking_uri=uri)

    def _experiment(self) -> str:
        """The id of the experiment of sweeps, which is made where it is missing.

        Raises: InvalidInput for a deleted one, or one whose artifacts, those for the curator among
        them, would be written into another folder than the home's.
        """
        found = self.client.get_experiment_by_name(EXPERIMENT)
        if found is None:
            new = None if self._is_remote else self._settings.artifacts_dir.as_uri()
            tags = {"mlflow.note.content": ABOUT_EXPERIMENT}
            tags["mlflow.experimentKind"] = "custom_model_development"  # pages show training
            try:
                self.client.create_experiment(EXPERIMENT, artifact_location=new, tags=tags)
            except self.error as problem:  # another process may have made it just now
                if problem.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
            found = self.client.get_experiment_by_name(EXPERIMENT)
        uri = hide_passwords(self._settings.tracking_uri)
        named = f"MLflow's experiment {EXPERIMENT!r} (id {found.experiment_id}) in {uri}"
        command = f"MLFLOW_TRACKING_URI='{uri}' mlflow experiments"
        if found.lifecycle_stage != "active":
            raise InvalidInput(
                f"{named} is deleted: `{command} restore --experiment-id {found.experiment_id}`"
                " restores it"
            )
        here, place = self._settings.artifacts_dir, urlsplit(str(found.artifact_location))
        there = Path(unquote(place.path))
        is_here = place.scheme != "mlflow-artifacts" and there.resolve() == here.resolve()
        is_local = not self._is_remote and place.scheme in ("", "file", "mlflow-artifacts")
        if is_local and not is_here:
            link = f"`ln -s '{here.parent}' '{there.parent}'` keeps its runs whole, or "
            raise InvalidInput(
                f"{named} keeps its artifacts in {found.artifact_location}, expected {here}:"
                f" {'' if there.parent.exists() else link}`{command} rename --experiment-id"
                f" {found.experiment_id} --new-name {EXPERIMENT}-before` makes room for a new one,"
                " to which `sweep resume` delivers its sweep again"
            )
        return str(found.experiment_id)


def require_answer(uri: str) -> None:
    """Check that a tracking server answers. Raises: StoreAway where it does not."""
    if not uri.startswith(("http://", "https://")):
        return
    try:
        # MLflow sends a name and a password in a header; urllib takes them for a part of the host.
        place = re.sub("//[^/]*@", "//", uri)
        urllib.request.urlopen(f"{place.rstrip('/')}/health", timeout=5.0).close()
    except urllib.error.HTTPError:
        return  # any response counts as an answer
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or first_line(problem)
        raise StoreAway(
            f"tracking server {hide_passwords(uri)} does not answer ({reason})"
        ) from None


def _run(found: Any) -> Run:
    return Run(found.info.run_id, found.info.start_time, found.data.tags, found.data.metrics)


def _tags(given: Fields) -> list[Any]:
    """Tags within MLflow's limits. An empty one would be a line of nothing on the run's page."""
    from mlflow.entities import RunTag

    return [
        RunTag(accepted(key), _text(value)[:_LONGEST_TAG])
        for key, value in given.items()
        if value not in (None, "")
    ]


def _text(value: Any) -> str:
    """The value in characters that every store keeps."""
    return str(value).replace("\0", "").encode("utf-8", "replace").decode()


def milliseconds(when: float) -> int:
    """MLflow's time in milliseconds; `when` in seconds since the Unix epoch."""
    return int(when * 1000)
