"""Table 1 of Dupuy et al. 2021 (arXiv 2107.14586): error, leakage and epsilon of each
noise decay.

    python benchmarks/table1.py                        # the stored rows; nothing runs
    python benchmarks/table1.py --plan [--data atis]   # what would be trained, in order
    python benchmarks/table1.py --run FOLDER [--data atis] [--model clc] [--noise implied]
        [--processes 2] [--device cuda] [--minutes 60]
    python benchmarks/table1.py --of FOLDER            # the rows of what has ended there
    python benchmarks/table1.py --run FOLDER --data health --utterances 1000000 --epochs 1
    python benchmarks/table1.py --table benchmarks/table1_by_heart.yaml [--run FOLDER]

A trial is the one that a sweep would train, without Ray, on data in $SWEEP_DATA_DIR:
one process a trial, most valuable first (`table1.yaml`). A line of
`FOLDER/trials.jsonl` is written as each ends, and the same command goes on after an end
by time or interrupt. `evidence_*.npz` has the counts of right and wrong labels of each
test record and the scores of the paper's attack, for paired intervals.

Noise `implied` has the z0 at which the paper's formula gives the epsilon that the paper
states for its own cell, `equal` that of its cell without decay, `grid` points of its
grid. C, z0 and tau are chosen by validation SER.

Intervals (95 %): Student's t over seeds and the bootstrap over records, added in
quadrature. A change is in percent of SGD's of the same seeds, paired over the same
records.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import multiprocessing.connection
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from scipy.special import ndtr, stdtrit
from table1_reading import (
    DECAYS,
    PAPER_EPOCHS,
    agreement,
    leaks,
    noise_of,
    noise_ratio,
    noises,
)

from search_spaces.paths import set_all
from trainables.config.trial import TrialConfig, parse
from trainables.errors import InvalidInput

HERE = Path(__file__).parent
TABLE: dict[str, Any] = yaml.safe_load(
    (HERE / "table1.yaml").read_text(encoding="utf-8")
)
STORED = HERE.parent / "docs" / "measurements" / "table1.csv"
CELLS = HERE / "paper" / "table1.csv"
NOISES = ("implied", "grid", "equal")
_FIGURES = (
    *(
        "c",
        "z0",
        "tau",
        "seeds",
        "epochs",
        "epsilon_paper",
        "epsilon",
        "epsilon_public",
    ),
    *(f"{name}{end}" for name in ("ser", "mia") for end in ("", "_low", "_high")),
)
Interval = tuple[float, float, float]  # the figure, and the bounds of its 95 % interval


@dataclass(frozen=True)
class Job:
    """A trial; `noise` is empty for SGD. Method `shadow` is the attack's model of that
    pair.
    """

    corpus: str
    model: str
    method: str
    noise: str = ""
    c: float = 0.0
    z0: float = 0.0
    tau: float = 0.0
    seed: int = 0

    @property
    def name(self) -> str:
        """Its name in files."""
        words = (self.corpus, self.model, self.method, self.noise)
        return "-".join(
            [*words, *(f"{x:g}" for x in (self.c, self.z0, self.tau)), str(self.seed)]
        )

    @property
    def epochs(self) -> int:
        """The epochs of its pair."""
        return int(TABLE["corpora"][self.corpus]["epochs"][self.model])

    def config(
        self, *, vectors: str | None = None, encoder: str | None = None
    ) -> TrialConfig:
        """Its configuration, with another file of word vectors or another encoder."""
        own, model = TABLE["corpora"][self.corpus], TABLE["models"][self.model]
        method = "sgd" if self.method == "shadow" else self.method
        fields = {"data": own["data"], "model": dict(model["model"])}
        fields["evaluation"] = {"attacks": [], **own.get("evaluation", {})}
        if vectors and "word_vectors" in model["model"]:
            fields["model"]["word_vectors"] = vectors
        if encoder and "encoder" in model["model"]:
            fields["model"]["encoder"] = encoder
        fields["training"] = {
            **TABLE["base"]["training"],
            **model["training"],
            **own.get("training", {}),
            "epochs": self.epochs,
            "seed": self.seed,
        }
        changes = dict(TABLE["methods"][method])
        if method in DECAYS:
            fields["privacy"] = {**TABLE["base"]["privacy"], **own.get("privacy", {})}
            changes |= {
                "privacy.max_grad_norm": self.c,
                "privacy.noise_multiplier": self.z0,
            }
            # A GPU's own generator: the cipher would take most of a step. It is no
            # guarantee's.
            changes["privacy.secure_noise"] = False
            if self.tau:
                changes["privacy.noise_decay.tau"] = self.tau
        return parse(set_all(fields, changes.items()))


def read_cells(path: Path) -> pd.DataFrame:
    """The paper's cells by corpus and model.

    Raises: InvalidInput for another header, a missing or repeated cell or a figure that
    is no number.
    """
    wanted = list(pd.read_csv(CELLS, nrows=0).columns)
    read = read_csv(path, wanted)
    if list(read.columns) != wanted:
        raise InvalidInput(
            f"expected {path.name} with the header {','.join(wanted)}, got"
            f" {','.join(read.columns)}"
        )
    cells = read.set_index(["data", "model"])
    found = [tuple(pair) for pair in cells.index]
    wrong = [p for p in pairs() if found.count(p) != 1]
    if wrong:
        raise InvalidInput(
            f"expected a row of {path.name} for each corpus and model, got"
            f" {found.count(wrong[0]) or 'none'} for {wrong[0][0]} with {wrong[0][1]}"
        )
    for name in cells:
        require_numbers(cells[name], str(name), found)
    return cells.astype(float)


def read_rows(path: Path, cells: pd.DataFrame) -> pd.DataFrame:
    """The rows that `rows_of` made; a figure that was not measured is nan.

    Raises: InvalidInput for another header, a corpus, model, method or noise that is
    not of the table, or a figure that is no number.
    """
    rows = read_csv(path, ["corpus", "model", "method", "noise", *_FIGURES])
    for name in ("ser_change", "mia_change"):
        # Without them nothing but SGD has ended.
        for column in named(name, None):
            rows[column] = rows.get(column)
    rows["noise"] = rows["noise"].fillna("")
    known = [f"{corpus} with {model}" for corpus, model in cells.index]
    own = (rows["corpus"] + " with " + rows["model"]).tolist()
    for names, allowed, field in (
        (own, known, "corpus and model"),
        (rows["method"], list(TABLE["methods"]), "method"),
        (rows["noise"], ["", *NOISES], "noise"),
    ):
        for name in names:
            if name not in allowed:
                raise InvalidInput(
                    f"expected a {field} of {path.name} to be one of"
                    f" {', '.join(each for each in allowed if each)}, got {name!r}"
                )
    labels = ["corpus", "model", "method", "noise", "device"]
    numbers = [str(each) for each in rows if each not in labels]
    places = list(zip(own, rows["method"], rows["noise"], strict=True))
    for column in numbers:
        require_numbers(rows[column].fillna("0"), column, places)
    return rows.astype(dict.fromkeys(numbers, float)).astype({"seeds": int})


def read_csv(path: Path, wanted: Sequence[str]) -> pd.DataFrame:
    """A CSV file with at least these columns, as text.

    Raises: InvalidInput where it is none, or lacks a column.
    """
    try:
        frame = pd.read_csv(path, dtype=str)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InvalidInput(f"expected a CSV file, got {path}: {reason}") from None
    if missing := [name for name in wanted if name not in frame]:
        raise InvalidInput(
            f"expected {path.name} with the header {','.join(wanted)}, got"
            f" {','.join(frame.columns)} without {missing[0]}"
        )
    return frame


def require_numbers(column: pd.Series, name: str, places: Sequence[Any]) -> None:
    """Raises: InvalidInput for a text that is no number, with its place; an epsilon may
    be infinite.
    """
    for place, text in zip(places, column, strict=True):
        try:
            number = float(text)
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number) or (math.isinf(number) and "log10" in name):
            where = " with ".join(each for each in place if each)
            raise InvalidInput(f"expected a number as {name} of {where}, got {text!r}")


def resize(*, epochs: int | None, utterances: int | None, keep: str | None) -> None:
    """Train each trial for so many epochs, on synthetic corpora of so many utterances, and
    keep the best epoch or the last.
    """
    if keep is not None:
        TABLE["base"]["training"]["keep"] = keep
    for name, own in TABLE["corpora"].items():
        own["epochs"] = {model: epochs or n for model, n in own["epochs"].items()}
        if utterances is not None and name not in public_corpora():
            own["data"]["num_utterances"] = utterances


def public_corpora() -> list[str]:
    """The corpora that are not synthetic."""
    return [
        name
        for name, own in TABLE["corpora"].items()
        if "num_utterances" not in own["data"]
    ]


def pairs() -> list[tuple[str, str]]:
    """Every corpus with every model."""
    return [(corpus, model) for corpus in TABLE["corpora"] for model in TABLE["models"]]


def candidates(job: Job, cells: pd.DataFrame) -> list[Job]:
    """The points (C, z0, tau) of a cell, among which validation SER chooses."""
    if job.noise == "grid":
        return [replace(job, c=c, z0=z, tau=t) for c, z, t in TABLE["grid"][job.method]]
    of = "none" if job.noise == "equal" else job.method
    found = implied(
        job.method,
        epsilon=10.0 ** cells[f"{of}_log10_epsilon"][(job.corpus, job.model)],
        epochs=job.epochs,
        delta=delta_of(job.corpus),
    )
    chosen = [
        (c, *found[round(place * (len(found) - 1))])
        for c, place in TABLE["spread"][job.method]
    ]
    return [replace(job, c=c, z0=z, tau=t) for c, z, t in dict.fromkeys(chosen)]


def delta_of(corpus: str) -> float:
    """The paper's delta of a corpus."""
    fields = {**TABLE["base"], **TABLE["corpora"][corpus]}
    return float(fields["privacy"]["delta"])


def implied(
    decay: str, *, epsilon: float, epochs: int, delta: float
) -> list[tuple[float, float]]:
    """Each tau of the grid, with the z0 within it, 1e-6 to 1, at which the paper's
    formula gives `epsilon`; the nearest point where none does.

    >>> implied("none", epsilon=36.355, epochs=30, delta=5e-4)
    [(1.0, 0)]
    """
    every = []
    for tau in TABLE["taus"][decay]:
        z0 = noise_of(decay, tau=tau, epsilon=epsilon, epochs=epochs, delta=delta)
        every.append((float(f"{z0:.3g}"), tau))
    # The paper's figures are rounded to a tenth of lg epsilon, so z0 to an eighth.
    within = [(min(z, 1.0), tau) for z, tau in every if 1e-6 <= z < 1.1]
    nearest = every[-1] if every[-1][0] < 1 else every[0]
    return within or [(min(1.0, max(1e-6, nearest[0])), nearest[1])]


def plan(
    options: argparse.Namespace, cells: pd.DataFrame
) -> Iterator[tuple[Job, list[Job]]]:
    """The trials in order, each with the candidates among which its point is chosen:
    none for a trial whose point is known.
    """
    stages = [tuple(stage) for stage in TABLE["order"]]
    named = {(corpus, model) for corpus, model, _, _ in stages}
    stages += [
        (*pair, noise, 1) for pair in pairs() if pair not in named for noise in NOISES
    ]
    seen = set()
    for corpus, model, noise, seeds in stages:
        wanted = (
            corpus in options.data and model in options.model and noise in options.noise
        )
        if not wanted:
            continue
        seeds = min(seeds, options.seeds or seeds)
        jobs: list[tuple[Job, list[Job]]] = [
            (Job(corpus, model, method, seed=seed), [])
            for seed in range(seeds)
            for method in TABLE["methods"]
            if method not in DECAYS
        ]
        # Decays at equal epsilon are compared with none at the noise that its own cell
        # implies.
        noises = {
            d: "implied" if (d, noise) == ("none", "equal") else noise for d in DECAYS
        }
        points = {
            d: candidates(Job(corpus, model, d, noises[d]), cells)[: options.candidates]
            for d in DECAYS
        }
        jobs += [(each, []) for decay in DECAYS for each in points[decay]]
        jobs.insert(2, (Job(corpus, model, "shadow"), []))
        jobs += [
            (Job(corpus, model, decay, noises[decay], seed=seed), points[decay])
            for seed in range(1, seeds)
            for decay in DECAYS
        ]
        for job, among in jobs:
            if job not in seen:
                seen.add(job)
                yield job, among


def estimate(planned: Sequence[Job], ended: Mapping[Job, dict[str, Any]]) -> str:
    """How long the planned trials take one after another, by the seconds of an epoch of
    those that have ended.
    """
    epochs: dict[tuple[str, str], list[float]] = {}
    for job, row in ended.items():
        if "epochs" in row:
            of = epochs.setdefault((job.corpus, job.model), [])
            of.append(row["seconds"] / row["epochs"])
    known = [job for job in planned if (job.corpus, job.model) in epochs]
    seconds = sum(
        job.epochs * statistics.median(epochs[job.corpus, job.model]) for job in known
    )
    without = (
        f", without {n} of pairs of which none has ended"
        if (n := len(planned) - len(known))
        else ""
    )
    return f"{len(planned)} trials: {seconds / 3600:.1f} hours of one process{without}"


def run(options: argparse.Namespace, cells: pd.DataFrame) -> None:
    """Train what has not ended, in order, until the plan or the time ends."""
    from table1_trials import work  # torch, which a table does without

    started = time.time()
    deadline = started + 60 * options.minutes
    (options.run / "signals").mkdir(parents=True, exist_ok=True)
    lines = options.run / "trials.jsonl"
    ended = read_trials(options.run)
    waiting = list(plan(options, cells))
    context = multiprocessing.get_context("spawn")
    data = Path(os.environ.get("SWEEP_DATA_DIR", "data"))
    settings = {"run": options.run, "data_dir": data, "device": options.device}
    sent: dict[str, Job] = {}
    pipes, processes = [], []
    for _ in range(options.processes):
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, settings, deadline))
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    idle: list[Any] = list(pipes)
    failed: set[Job] = set()
    while time.time() < deadline:
        while idle and (job := next_job(waiting, ended, failed)) is not None:
            sent[job.name] = job
            config = job.config(vectors=options.vectors, encoder=options.encoder)
            idle.pop().send((job.name, job.method == "shadow", config))
        if len(idle) == len(pipes):
            break
        busy = [each for each in pipes if each not in idle]
        pipe: Any
        for pipe in multiprocessing.connection.wait(busy, 1.0):
            try:
                name, row = pipe.recv()
            except EOFError:  # it was killed, and its trial is lost
                pipes.remove(pipe)
                continue
            idle.append(pipe)
            job = sent.pop(name)
            if not isinstance(row, dict):
                failed.add(job)
                print(
                    f"{job.name}: {row or 'out of time'}", file=sys.stderr, flush=True
                )
                continue
            ended[job] = row
            with lines.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**vars(job), **row}) + "\n")
            ser = f" SER {row['ser']:.4f}" if "ser" in row else ""
            print(f"{time.time() - started:.0f} s {job.name}{ser}", flush=True)
    for process in processes:
        process.terminate()
    keep_evidence(options, ended)


def next_job(
    waiting: list[tuple[Job, list[Job]]],
    ended: dict[Job, dict[str, Any]],
    failed: set[Job],
) -> Job | None:
    """Take the first trial that can begin out of `waiting`; one whose point is to be
    chosen waits for all candidates.
    """
    for place, (job, among) in enumerate(waiting):
        if among:
            known = [each for each in among if each in ended]
            if len(known) + len(failed.intersection(among)) < len(among) or not known:
                continue
            best = min(known, key=lambda each: ended[each]["validation_ser"])
            job = replace(best, seed=job.seed)
        waiting.pop(place)
        return job if job not in ended else next_job(waiting, ended, failed)
    return None


def read_trials(folder: Path) -> dict[Job, dict[str, Any]]:
    """The rows of the trials that have ended."""
    path = folder / "trials.jsonl"
    rows = (
        [json.loads(line) for line in path.read_text().splitlines()]
        if path.exists()
        else []
    )
    names = ("corpus", "model", "method", "noise", "c", "z0", "tau", "seed")
    return {Job(*(row[name] for name in names)): row for row in rows}


def keep_evidence(
    options: argparse.Namespace, ended: dict[Job, dict[str, Any]]
) -> None:
    """Write the counts and losses, and the scores of the paper's attack where its
    shadow has ended, of all trials of a pair into one file. What is there of an earlier
    start stays.
    """
    from trainables import attacks
    from trainables.attacks.shadow import fit

    folder = options.run / "signals"
    for corpus, model in pairs():
        place = options.run / f"evidence_{corpus}_{model}.npz"
        arrays = read_evidence(place)
        attack, shadow = None, folder / f"{Job(corpus, model, 'shadow').name}.npz"
        if shadow.exists():
            signals = attacks.read_signals(shadow)
            rows = signals.is_evaluated
            attack = fit(signals.features[rows], signals.member[rows])
        for job in ended:
            counts = folder / f"{job.name}.npy"
            if (job.corpus, job.model) != (corpus, model) or not counts.exists():
                continue
            arrays[f"{job.name}/counts"] = np.load(counts).astype(np.uint8)
            signals = attacks.read_signals(counts.with_name(f"{job.name}.npz"))
            rows = signals.is_evaluated
            arrays["member"] = signals.member[rows]
            arrays[f"{job.name}/losses"] = signals.log_confidence[rows].astype(
                np.float32
            )
            if attack is not None:
                scores = attack(signals.features[rows])
                arrays[f"{job.name}/scores"] = scores.astype(np.float32)
        if arrays:
            np.savez_compressed(place, **arrays)


def read_evidence(place: Path) -> dict[str, Any]:
    """What `keep_evidence` wrote; empty without a file."""
    if not place.exists():
        return {}
    with np.load(place) as stored:
        return {name: stored[name] for name in stored.files}


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """A flat row for each method and noise whose point is chosen, SGD first."""
    ended = {
        job: row for job, row in read_trials(folder).items() if job.method != "shadow"
    }
    rows = []
    for corpus, model in pairs():
        own = [job for job in ended if (job.corpus, job.model) == (corpus, model)]
        if not own:
            continue
        evidence = read_evidence(folder / f"evidence_{corpus}_{model}.npz")
        groups: dict[tuple[str, str], list[Job]] = {}
        for job in own:
            groups.setdefault((job.method, job.noise), []).append(job)
        chosen = {}
        for group, jobs in groups.items():
            first = [job for job in jobs if job.seed == 0]
            if first:
                best = min(first, key=lambda job: ended[job]["validation_ser"])
                same = [job for job in jobs if replace(job, seed=0) == best]
                chosen[group] = (sorted(same, key=lambda job: job.seed), len(first))
        for group, (jobs, tried) in chosen.items():
            row: dict[str, Any] = {"corpus": corpus, "model": model}
            row |= {"method": group[0], "noise": group[1]}
            row |= {name: getattr(jobs[0], name) for name in ("c", "z0", "tau")}
            row |= {"candidates": tried, "seeds": len(jobs)}
            row |= {
                name: ended[jobs[0]][name] for name in ("epochs", "records", "device")
            }
            row["seconds"] = sum(ended[job]["seconds"] for job in jobs)
            names = ("epsilon_paper", "epsilon", "epsilon_public")
            row |= {name: ended[jobs[0]].get(name) for name in names}
            sers = [
                (r["ser"], r["ser_low"], r["ser_high"])
                for r in (ended[job] for job in jobs)
            ]
            row |= named("ser", widen(sers))
            for name, part in (("mia", "scores"), ("loss", "losses")):
                row |= named(
                    name,
                    widen([of for job in jobs if (of := auc(evidence, job, part))]),
                )
            for against, name in (("sgd", ""), ("sgd_clipped", "_clipped")):
                if group[0] != against and (against, "") in chosen:
                    other = chosen[against, ""][0]
                    row |= named(
                        f"ser_change{name}", change(evidence, jobs, other, of_counts)
                    )
                    row |= named(
                        f"mia_change{name}", change(evidence, jobs, other, of_scores)
                    )
                    row |= named(
                        f"loss_change{name}", change(evidence, jobs, other, of_losses)
                    )
            if group[1] == "equal" and ("none", "implied") in chosen:
                other = chosen["none", "implied"][0]
                row |= named("ser_over_none", change(evidence, jobs, other, of_counts))
            rows.append(row)
    return rows


def auc(evidence: dict[str, Any], job: Job, part: str) -> Interval | None:
    """The AUC of the paper's attack (`scores`) or of `losses`, with the interval of its
    records.
    """
    from trainables.metrics import membership

    scores = evidence.get(f"{job.name}/{part}")
    if scores is None:
        return None
    found = membership.figures(scores.astype(np.float64), evidence["member"])
    return found["auc"], found["auc_low"], found["auc_high"]


def of_counts(evidence: dict[str, Any], mine: Job, other: Job) -> Interval | None:
    """The change of SER in percent of the other trial's."""
    from trainables.metrics import compare
    from trainables.metrics._counts import from_table

    sides = [evidence[f"{job.name}/counts"].astype(np.int64) for job in (mine, other)]
    found = compare(*map(from_table, sides))
    return bounds(found, "delta_ser_percent")


def of_scores(
    evidence: dict[str, Any], mine: Job, other: Job, part: str = "scores"
) -> Interval | None:
    """The change of the AUC in percent; None where an attack is inverted (members score
    lower), because the ratio is then of no leakage.
    """
    from trainables.dp.seeding import generator
    from trainables.metrics import membership

    names = [f"{job.name}/{part}" for job in (mine, other)]
    if any(name not in evidence for name in names):
        return None
    both = [(evidence[name].astype(np.float64), evidence["member"]) for name in names]
    found = membership.auc_change(*both, rng=generator(0, "bootstrap", "table1"))
    return bounds(found, "delta_mia_percent")


of_losses = partial(of_scores, part="losses")


def bounds(found: dict[str, float], name: str) -> Interval:
    """A figure of that name with its interval."""
    return found[name], found[f"{name}_low"], found[f"{name}_high"]


def change(
    evidence: Any, mine: Sequence[Job], other: Sequence[Job], of: Any
) -> Interval | None:
    """The mean over the seeds that both have of the paired changes."""
    by_seed = {job.seed: job for job in other}
    both = [(job, by_seed[job.seed]) for job in mine if job.seed in by_seed]
    return widen([found for pair in both if (found := of(evidence, *pair)) is not None])


def widen(each: Sequence[Interval]) -> Interval | None:
    """The mean over seeds: their mean half-width over records and Student's t over the
    seeds, in quadrature. The mean, not a smaller one, because every seed is tested on
    the same records.

    >>> widen([(1.0, 0.5, 1.5), (1.0, 0.5, 1.5)])
    (1.0, 0.5, 1.5)
    """
    if not each:
        return None
    values = [value for value, _, _ in each]
    mean, seeds = statistics.fmean(values), 0.0
    if len(each) > 1:
        spread = statistics.stdev(values) / math.sqrt(len(each))
        seeds = float(stdtrit(len(each) - 1, 0.975)) * spread
    below = statistics.fmean(v - low for v, low, _ in each)
    above = statistics.fmean(high - v for v, _, high in each)
    return mean, mean - math.hypot(below, seeds), mean + math.hypot(above, seeds)


def named(name: str, found: Interval | None) -> dict[str, float | None]:
    """A figure and its bounds as columns."""
    return dict(
        zip((name, f"{name}_low", f"{name}_high"), found or (None,) * 3, strict=True)
    )


def markdown(rows: pd.DataFrame, cells: pd.DataFrame) -> str:
    """The rows with the paper's own cells beside ours, the counts of agreement beside
    chance, and the cells that have the paper's noise.
    """
    heads = [
        "corpus",
        "model",
        "method",
        "noise",
        "C",
        "z0",
        "tau",
        "seeds",
        "SER %",
        "MIA %",
    ]
    heads += ["change of SER %", "of MIA %", "of SER % over clipped SGD"]
    heads += [
        "lg epsilon, paper's formula",
        "guaranteed epsilon",
        "lg, alpha public, at most 8",
    ]
    heads += ["paper: SER or its change", "MIA", "lg epsilon"]
    heads += [f"z0 over that of {PAPER_EPOCHS} epochs"]
    has_loss = "loss" in rows and rows["loss"].notna().any()
    heads += ["AUC of the loss %", "its change %"] if has_loss else []
    lines = [heads, ["---"] * len(heads)]
    for row in rows.to_dict("records"):
        theirs = cells.loc[(row["corpus"], row["model"])]
        method, paper = row["method"], [""] * 3
        if method in DECAYS:
            names = ("delta_ser", "delta_mia", "log10_epsilon")
            paper = [f"{theirs[f'{method}_{name}']:g}" for name in names]
        elif method == "sgd":
            paper = [f"{theirs['sgd_ser']:g}", f"{theirs['sgd_mia_auc']:g}", ""]
        ratio = ""
        if row["noise"] == "implied":
            delta = delta_of(row["corpus"])
            ratio = f"{noise_ratio(row, cells, delta=delta):.2g}"
        point = [
            f"{row[name]:g}" if method in DECAYS else "" for name in ("c", "z0", "tau")
        ]
        epsilon = [""] * 3
        if method in DECAYS:
            ours, public = (
                math.log10(row[f"epsilon_{name}"]) for name in ("paper", "public")
            )
            epsilon = [f"{ours:.1f}", f"{row['epsilon']:.3g}", f"{public:.1f}"]
        lines.append(
            [
                *(
                    row["corpus"],
                    row["model"],
                    method,
                    row["noise"],
                    *point,
                    str(row["seeds"]),
                ),
                *(
                    cell(row, "ser", 100),
                    cell(row, "mia", 100),
                    cell(row, "ser_change"),
                ),
                *(
                    cell(row, "mia_change"),
                    cell(row, "ser_change_clipped"),
                    *epsilon,
                    *paper,
                    ratio,
                ),
                *(
                    [cell(row, "loss", 100), cell(row, "loss_change")]
                    if has_loss
                    else []
                ),
            ]
        )
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    corpora = public_corpora()
    deltas = {corpus: delta_of(corpus) for corpus in TABLE["corpora"]}
    read = [*agreement(rows, cells, corpora), *noises(rows, cells, corpora, deltas)]
    read += leaks(rows, corpora)
    return "\n".join([text, "", *read, *decays(rows)])


def cell(row: Mapping[Any, Any], name: str, factor: float = 1) -> str:
    """A figure with its interval; `~` marks a change whose interval contains 0."""
    value, low, high = (row.get(each) for each in (name, f"{name}_low", f"{name}_high"))
    if value is None or low is None or high is None or math.isnan(value):
        return ""
    noise = " ~" if "change" in name and low <= 0 <= high else ""
    return f"{factor * value:.1f} ({factor * low:.1f} to {factor * high:.1f}){noise}"


def decays(rows: pd.DataFrame) -> Iterator[str]:
    """The decays against none at equal epsilon, with Holm's correction."""
    own = rows[rows["noise"] == "equal"]
    if "ser_over_none" not in own or own["ser_over_none"].isna().all():
        return
    own = own[own["ser_over_none"].notna()]
    half = (own["ser_over_none_high"] - own["ser_over_none_low"]) / 2
    p = 2 * ndtr(-(own["ser_over_none"] / (half / 1.96)).abs())
    rank = p.rank(method="first")
    own = own.assign(p=p, adjusted=(p * (len(p) - rank + 1)).clip(upper=1)).sort_values(
        "p"
    )
    own["adjusted"] = own["adjusted"].cummax()
    for row in own.to_dict("records"):
        yield (
            f"{row['corpus']}, {row['model']}: {row['method']} over none at equal"
            f" epsilon: {cell(row, 'ser_over_none')} % SER, p {row['p']:.2g}, after"
            f" Holm (1979) {row['adjusted']:.2g}"
        )


def main() -> None:
    """Run what has not ended, or print the table."""
    first = argparse.ArgumentParser(add_help=False)
    first.add_argument(
        "--table", type=Path, help="over table1.yaml's entries", metavar="YAML"
    )
    if table := first.parse_known_args()[0].table:
        try:
            changes = yaml.safe_load(table.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            reason = " ".join(str(error).split())
            first.error(f"expected --table to be a YAML file, got {table}: {reason}")
        if not isinstance(changes, dict) or changes.keys() - TABLE.keys():
            first.error(
                f"expected entries of table1.yaml ({', '.join(TABLE)}) in {table}"
            )
        TABLE.update(changes)
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], parents=[first]
    )
    parser.add_argument("--run", type=Path, metavar="FOLDER")
    parser.add_argument("--of", type=Path, metavar="FOLDER")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--cells", type=Path, default=CELLS, metavar="CSV")
    corpora, models = list(TABLE["corpora"]), list(TABLE["models"])
    parser.add_argument(
        "--data", nargs="+", choices=corpora, default=public_corpora() or corpora
    )
    parser.add_argument("--model", nargs="+", choices=models, default=models)
    parser.add_argument("--noise", nargs="+", choices=NOISES, default=NOISES)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--candidates", type=int, help="at most, of each cell")
    parser.add_argument("--epochs", type=int, help="of every trial")
    parser.add_argument("--keep", choices=("best", "last"), help="epoch of every trial")
    parser.add_argument(
        "--utterances", type=int, help="of each synthetic corpus, in place of 100,000"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--minutes", type=float, default=720.0)
    parser.add_argument("--vectors", help="a file in place of GloVe")
    parser.add_argument("--encoder", help="a folder in place of MiniLM")
    options = parser.parse_args()
    resize(epochs=options.epochs, utterances=options.utterances, keep=options.keep)
    try:
        cells = read_cells(options.cells)
        if options.plan:
            planned = list(plan(options, cells))
            for job, among in planned:
                print(job.name + (" (the best of its candidates)" if among else ""))
            if options.of:
                print(estimate([job for job, _ in planned], read_trials(options.of)))
            return
        if options.run:
            run(options, cells)
            return
        stored = STORED.with_stem(options.table.stem) if options.table else STORED
        if options.of:
            stored = options.of / "table1.csv"
            ended = rows_of(options.of)
            if not ended:
                raise InvalidInput(
                    f"expected ended trials in {options.of / 'trials.jsonl'}, got none:"
                    f" start them with --run {options.of}"
                )
            pd.DataFrame(ended).to_csv(stored, index=False)
        print(markdown(read_rows(stored, cells), cells))
    except InvalidInput as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
