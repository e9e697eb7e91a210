"""A sweep on disk as the frozen data of a report, and its page, charts for print, and
tables.
"""

import shlex
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dashboards import charts, render, report, results
from dashboards.results import Answer
from search_spaces.expansion import rank
from search_spaces.paths import label, short
from sweep.results import curves, frame, select
from sweep.results.exported import damages
from sweep.results.importance import Importance, advice, importance
from sweep.results.local_paths import in_text, in_word, paths_in, without_folders
from sweep.results.tables.axes import value_at, varied_paths
from sweep.results.utility_gap import Gap, gap
from sweep.settings import from_environment
from sweep.store.plans import PlannedTrial
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables import figures
from trainables.errors import InvalidData, InvalidInput
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
    made, hidden = frame.table(frame.rows(records), public=public)
    begun = zip(records, made, strict=True)
    trials = tuple(
        _trial(record.plan, columns, public=public, paths=paths)
        for record, columns in begun
        if record.status is not TrialStatus.PLANNED
    )
    about, space, document = folder.about(), folder.space(), folder.state().space
    found: Gap | None = None
    answer = Answer(headline="no trial other than baselines has finished")
    by = ""
    try:
        if (found := gap(records, limit=epsilon_max)) is not None:
            answer = _answer(found, public=public)
            if found.best is not None:
                allowed = select.candidates(records, epsilon_max=epsilon_max)
                by = select.metric_of_choice(allowed)
    except InvalidInput as problem:
        answer = Answer(headline=str(problem))
    mattered, next_steps = Importance(), list[str]()
    with suppress(
        InvalidInput
    ):  # trials without a figure in common say nothing of the axes
        if not public:
            mattered = importance(records)
            next_steps = advice(records, partial(frame.change_between, folder))
    # Durations are the curator's where validation and test records are covered, too.
    is_timed = not (public and any(record.plan.covers_all for record in records))
    epochs = frame.epochs_frame(folder, public=public)
    ids = {record.plan.id for record in records}
    tables = {
        TRIALS: frame.framed(made, hidden),
        EPOCHS: epochs[epochs.index.isin(ids)],
    }
    sweep = results.Sweep(
        name=folder.name,
        dataset=_most_common([r.plan.config.data.name for r in finished]),
        model=_most_common([r.plan.config.model.name for r in finished]),
        trials=trials,
        epsilon_max=epsilon_max,
        answer=answer,
        chosen_by=by,
        headline=select.headline(records),
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
            name: frame.csv_text(kept) for name, kept in tables.items() if len(kept)
        },
        seconds=sum(record.seconds for record in records) if is_timed else None,
        curves=curves.learning_curves(folder, records, public=public),
        spending=curves.spending(folder, records) if is_timed else results.Spending(),
    )
    if found is None or found.best is None:
        return sweep
    from sweep.results.export import card_of  # which imports the accounting library

    best, plan = found.best, found.best.plan
    card = card_of(folder, best)
    sweep = replace(
        sweep,
        chosen=plan.id,
        config=format_yaml(without_folders(plan.fields) if public else plan.fields),
        card=card,
        delta=None if public and plan.reveals_count("delta") else plan.delta,
    )
    if public:
        return sweep
    base = found.baselines[0].of_seed(plan.seed) if found.baselines else None
    sides = [best] if base is None else [best, base]
    return replace(
        sweep,
        roc=curves.roc(folder, best, base, card),
        labels=curves.label_errors(folder, sides, from_environment()),
    )


def _answer(found: Gap, *, public: bool) -> Answer:
    """The answer in words, without the folders of files where it is `public`."""
    plan = None if found.best is None else found.best.plan
    places = tuple(paths_in(plan.fields)) if public and plan is not None else ()
    headline, *below = (in_text(words, places) for words in found.headline())
    seed = 0 if plan is None else plan.seed
    return Answer(
        headline=headline,
        below=tuple(below),
        compared_with=tuple(g.of_seed(seed).plan.id for g in found.baselines),
        same_model=found.is_beside_same_model,
        is_useful=found.is_useful,
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


def _trial(
    plan: PlannedTrial,
    columns: Mapping[str, object],
    *,
    public: bool,
    paths: Sequence[str],
) -> results.Trial:
    """A row of the table, with the values of the axes as their fields give them."""
    folders = tuple(paths_in(plan.fields)) if public else ()
    return results.Trial(
        id=plan.id,
        columns=columns,
        axes={
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
            "reason": None if chosen else self.sweep.answer.headline,
            "metrics": chosen
            and {n: v for n, v in chosen.columns.items() if n in figures.registry()},
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
        path
        for path in (target / CHARTS).glob("*.*g")
        if path.suffix in (".svg", ".png")  # pictures were PNG before
        and (path.stem in charts.NAMES or path.stem.startswith(charts.SLICE))
    ]
    for path in (*charted, *(target / name for name in (PAGE, TRIALS, EPOCHS))):
        path.unlink(missing_ok=True)
    beside = []
    for name, text in sweep.files.items():
        (target / name).write_text(text, encoding="utf-8")
        beside.append(name)
    for chart in (one for part in charts.every(sweep).values() for one in part):
        name = f"{CHARTS}/{chart.name}.svg"
        (target / name).write_text(render.file(chart), encoding="utf-8")
        beside.append(name)
    page = target / PAGE
    page.write_text(report.html(sweep), encoding="utf-8")
    return ReportFiles(sweep=sweep, page=page, beside=tuple(beside))
