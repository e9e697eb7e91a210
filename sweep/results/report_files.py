"""A sweep on disk as the frozen data of a report, and its page, charts for print, and
tables.
"""

import shlex
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dashboards import charts, report, results
from dashboards.render import png
from search_spaces.expansion import rank
from search_spaces.paths import label, short
from sweep.results import frame, select
from sweep.results.exported import damages
from sweep.results.importance import Importance, advice, importance
from sweep.results.local_paths import in_text, in_word, paths_in, without_folders
from sweep.results.tables.axes import value_at, varied_paths
from sweep.results.utility_gap import Gap, gap
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables.attacks import audited
from trainables.config.mechanism import claims_privacy
from trainables.errors import InvalidData, InvalidInput
from trainables.figures import EPSILON, EPSILON_PAPER
from trainables.io.documents import format_yaml


def gather(
    folder: SweepFolder,
    *,
    epsilon_max: float,
    corpus: str | None = None,
    public: bool = False,
) -> results.Sweep:
    """The trials on one corpus (needed where there are several) with the best one at
    `epsilon_max`. `public` leaves out what only the curator may see: attacks, training
    losses and norms, the folders of files, and importance and advice, which follow from
    such figures.

    Raises: InvalidInput where no trial has finished or the corpus is none of the
    sweep's, InvalidData where a file of a trial differs from its manifest.
    """
    records = _on(corpus, frame.read(folder))
    finished = [record for record in records if record.status.is_finished]
    if not finished:
        where = "" if corpus is None else f" on {corpus}"
        raise InvalidInput(
            f"expected a finished trial{where} in sweep {folder.name}, got none"
        )
    for sentence in damages(folder, finished).values():
        raise InvalidData(sentence)
    paths = varied_paths([record.plan for record in records])
    trials = tuple(
        _trial(row, public=public, paths=paths)
        for row in frame.rows(records)
        if row.record.status is not TrialStatus.PLANNED
    )
    about, space, document = folder.about(), folder.space(), folder.state().space
    found: Gap | None = None
    answer: tuple[str, ...] = ("no trial other than baselines has finished",)
    by = ""
    try:
        if (found := gap(records, limit=epsilon_max)) is not None:
            answer = found.answer()
            if found.best is not None:
                allowed = select.candidates(records, epsilon_max=epsilon_max)
                by = select.metric_of_choice(allowed)
    except InvalidInput as problem:
        answer = (str(problem),)
    mattered, next_steps = Importance(), list[str]()
    with suppress(
        InvalidInput
    ):  # trials without a figure in common say nothing of the axes
        if not public:
            mattered = importance(records)
            next_steps = advice(records, partial(frame.change_between, folder))
    folders = (
        [p for record in records for p in paths_in(record.plan.fields)]
        if public
        else []
    )
    ids = {record.plan.id for record in records}
    tables = {
        TRIALS: frame.trials_frame(folder, public=public),
        EPOCHS: frame.epochs_frame(folder, public=public),
    }
    tables = {name: made[made.index.isin(ids)] for name, made in tables.items()}
    sweep = results.Sweep(
        name=folder.name,
        dataset=_most_common([r.plan.config.data.name for r in finished]),
        model=_most_common([r.plan.config.model.name for r in finished]),
        trials=trials,
        epsilon_max=epsilon_max,
        answer=tuple(in_text(words, folders) for words in answer),
        chosen_by=by,
        public=public,
        description=" ".join(space.description.split()),
        source=space.source,
        created=time.strftime(
            "%Y-%m-%d %H:%M UTC", time.gmtime(float(about["created"]))
        ),
        command=shlex.join(
            in_word(str(word)) if public else str(word) for word in about["command"]
        ),
        git_commit=str(about["git_commit"] or ""),
        versions=about["versions"],
        space=format_yaml(without_folders(document) if public else document),
        axes=tuple(map(label, paths)),
        helps=() if found is None else tuple(found.helps()),
        warnings=() if found is None else tuple(found.warnings()),
        mattered={label(path): share for path, share in mattered.shares.items()},
        explains=mattered.explained,
        next_steps=tuple(next_steps),
        files={
            name: frame.csv_text(made) for name, made in tables.items() if len(made)
        },
    )
    if found is None or found.best is None:
        return sweep
    from sweep.results.export import card_of  # which imports the accounting library

    plan = found.best.plan
    return replace(
        sweep,
        chosen=plan.id,
        config=format_yaml(without_folders(plan.fields) if public else plan.fields),
        card=card_of(folder, found.best),
        delta=None if public and plan.reveals_count("delta") else plan.delta,
    )


def _on(corpus: str | None, records: list[TrialRecord]) -> list[TrialRecord]:
    parts = select.by_corpus(records)
    if corpus is None and len(parts) < 2:
        return records
    if corpus not in parts:
        raise InvalidInput(
            f"expected --data {' or '.join(parts)}: a report has trials on one corpus,"
            f" got {corpus or 'none'}"
        )
    return parts[corpus]


def _trial(row: frame.Row, *, public: bool, paths: Sequence[str]) -> results.Trial:
    record, plan = row.record, row.record.plan
    folders = tuple(paths_in(plan.fields)) if public else ()

    is_hidden = public and plan.reveals_count(EPSILON_PAPER)
    is_timed = not (public and plan.covers_all)
    privacy = (
        plan.config.privacy if claims_privacy(plan.engine) and plan.is_config else None
    )
    return results.Trial(
        id=plan.id,
        name=in_text(plan.name, folders),
        engine=plan.engine,
        decay=privacy.noise_decay.kind if privacy else "none",
        status=record.status,
        baseline=plan.baseline and not select.is_prior(record),
        epochs_done=record.epochs_done,
        seconds=record.seconds if is_timed else None,
        epsilon=select.value(record, EPSILON),
        compared_epsilon=select.compared(record, EPSILON),
        epsilon_paper=None if is_hidden else select.value(record, EPSILON_PAPER),
        metrics={
            name: value
            for name, value in record.metrics.items()
            if not public or plan.may_publish(name)
        },
        reason=in_text(record.reason or "", folders),
        on_front=row.pareto_optimal,
        claimed=record.metrics.get(audited(plan.config.data.split))
        if plan.is_config
        else None,
        data=plan.config.data.model_dump_json() if plan.is_config else "",
        baseline_id=row.baseline_id,
        time_factor=row.ratios.get("seconds_epoch") if is_timed else None,
        values={
            label(path): in_text(short(value), folders)
            if (at := rank(value)) is None
            else at
            for path in paths
            if (value := value_at(plan, path)) is not None
        },
    )


def _most_common(names: Sequence[str]) -> str:
    return ", ".join(name for name, _ in Counter(names).most_common())


PAGE, CHARTS = "report.html", "charts"
TRIALS, EPOCHS = "trials.csv", "epochs.csv"


@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    """The written page, and the names of its other files."""

    sweep: results.Sweep
    page: Path
    beside: tuple[str, ...]

    def summary(self) -> dict[str, object]:
        """The same for programs."""
        chosen = self.sweep.chosen_trial
        return {
            "page": str(self.page),
            "bytes": self.page.stat().st_size,
            "beside": list(self.beside),
            "epsilon_max": self.sweep.epsilon_max,
            "trial": self.sweep.chosen,
            "name": chosen.name if chosen else None,
            "chosen_by": self.sweep.chosen_by or None,
            "reason": None if chosen else self.sweep.answer[0],
            "metrics": dict(chosen.metrics) if chosen else None,
        }


def write(
    folder: SweepFolder,
    target: Path,
    *,
    epsilon_max: float,
    corpus: str | None = None,
    public: bool = False,
) -> ReportFiles:
    """Write the report of a sweep into `target`, replacing an earlier report.

    Raises: InvalidInput as `gather`, and where `target` is a file.
    """
    sweep = gather(folder, epsilon_max=epsilon_max, corpus=corpus, public=public)
    if target.exists() and not target.is_dir():
        raise InvalidInput(f"expected a folder for the report, got the file {target}")
    (target / CHARTS).mkdir(parents=True, exist_ok=True)
    # An earlier report for the curator has more files than a public one.
    charted = [
        p
        for p in (target / CHARTS).glob("*.png")
        if p.name.startswith(charts.BEGINNINGS)
    ]
    for path in (*charted, *(target / name for name in (PAGE, TRIALS, EPOCHS))):
        path.unlink(missing_ok=True)
    beside = []
    for name, text in sweep.files.items():
        (target / name).write_text(text, encoding="utf-8")
        beside.append(name)
    for chart in charts.every(sweep):
        (target / CHARTS / f"{chart.name}.png").write_bytes(png(chart))
        beside.append(f"{CHARTS}/{chart.name}.png")
    page = target / PAGE
    page.write_text(report.html(sweep), encoding="utf-8")
    return ReportFiles(sweep=sweep, page=page, beside=tuple(beside))
