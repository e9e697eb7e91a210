"""Finished trials as studies of Optuna, one a sweep, for its dashboard: importance,
slices, contours and parallel coordinates.

The dashboard is the extra `[explore]`. Its storage is in memory: nothing that is
changed in the browser reaches a sweep, and no figure is written to another file.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from search_spaces.expansion import rank
from search_spaces.paths import short
from sweep import access
from sweep.results import select
from sweep.search.suggest import quietly
from sweep.store import sweeps as store
from sweep.store.sweeps import TrialRecord
from trainables import figures
from trainables.errors import SweepError

_PORT = 8_080  # any free one where it is taken
_DECADE = 10.0  # an axis of positive values over more than that is logarithmic


class _Quiet(WSGIRequestHandler):
    def log_message(self, *message: Any) -> None:
        """Requests are not logged."""


@contextmanager
def dashboard(home: Path, *, host: str, token: str) -> Iterator[str | None]:
    """Optuna's dashboard over all sweeps of a home, which asks for `token`, at the
    address that this yields; None where the extra `[explore]` is not installed. Sweeps
    are read while it runs, and appear as they are.
    """
    if find_spec("optuna_dashboard") is None:
        yield None
        return
    from optuna.storages import InMemoryStorage
    from optuna_dashboard import wsgi

    storage = InMemoryStorage()

    def fill() -> None:
        for folder in store.sweeps(home):
            # What is damaged is marked by `sweep list`.
            with quietly(), suppress(SweepError):
                add_study(storage, folder.name, folder.records())

    application = access.wsgi(wsgi(storage), token)
    try:
        server = make_server(host, _PORT, application, handler_class=_Quiet)
    except OSError:  # it is taken
        server = make_server(host, 0, application, handler_class=_Quiet)
    with server:
        for work in (server.serve_forever, fill):
            threading.Thread(target=work, daemon=True).start()
        try:
            yield f"http://{host}:{server.server_port}"
        finally:
            server.shutdown()


def add_study(storage: Any, name: str, records: Sequence[TrialRecord]) -> Any:
    """A study of the finished trials of a sweep that have both objectives: the task's
    first figure and log10 of epsilon. Trials without noise have no finite epsilon and
    are left out. Figures that only the curator may see are attributes of a trial.
    """
    import optuna

    main = select.headline(records)
    found = []
    for record in records:
        quality = select.value(record, main)
        epsilon = select.compared(record, figures.EPSILON)
        if not record.status.is_finished or quality is None or epsilon is None:
            continue
        if math.isfinite(quality) and 0 < epsilon < math.inf:
            found.append((record, [quality, math.log10(epsilon)]))
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        directions=[
            "maximize" if figures.cost(main, 1.0) < 0 else "minimize",
            "minimize",
        ],
    )
    study.set_metric_names([figures.label(main), "log10 epsilon"])
    paths = dict.fromkeys(path for record, _ in found for path in record.plan.values)
    axes = {
        path: _axis([record.plan.values.get(path) for record, _ in found])
        for path in paths
    }
    axes["variant"] = _axis([record.plan.variant for record, _ in found])
    for place, (record, values) in enumerate(found):
        here = {
            path: param
            for path, (params, _) in axes.items()
            if (param := params[place]) is not None
        }
        attributes = {"trial": record.plan.id, "name": record.plan.name} | {
            f"curator_only: {name}": value
            for name, value in record.metrics.items()
            if value is not None and not figures.is_public(name)
        }
        trial = optuna.trial.create_trial(
            values=values,
            params=here,
            distributions={path: axes[path][1] for path in here},
            user_attrs=attributes,
        )
        if record.ended_at is not None:
            ended = datetime.fromtimestamp(record.ended_at)
            trial.datetime_complete = ended
            trial.datetime_start = ended - timedelta(seconds=record.seconds)
        study.add_trial(trial)
    return study


def _axis(values: Sequence[Any]) -> tuple[list[Any], Any]:
    """The values of an axis as Optuna's parameters, None where a trial lacks it, and
    their distribution.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    numbers = [rank(value) for value in values]
    known = [number for number in numbers if number is not None]
    if len(known) < sum(value is not None for value in values):
        words = [None if value is None else short(value) for value in values]
        return words, CategoricalDistribution(
            sorted({word for word in words if word is not None})
        )
    low, high = min(known), max(known)
    return numbers, FloatDistribution(low, high, log=low > 0 and high / low >= _DECADE)
