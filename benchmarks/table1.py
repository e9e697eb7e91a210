"""Table 1 of Dupuy et al. 2021 (arXiv 2107.14586): error, leakage and epsilon of each noise decay.

    python benchmarks/table1.py --data atis --model clc [--seeds 1] [--points 2] [--epochs 2]
        [--points-from docs/measurements/table1_atis_clc_points.csv] [--set PATH=VALUE]
    python benchmarks/table1.py --show          # what has ended; nothing runs

Each pair of corpus and model has one sweep a decay and kind of noise that chooses a point (C, z0,
tau) by validation SER at few epochs, then one at full length over the seeds with each best point
beside SGD and the other methods of `table1.yaml`. Noise `implied` has the z0 at which the paper's
formula gives the epsilon that the paper states for its own cell; `grid` has points of its grid. A
sweep's name ends with a digest of what its trials share, so other settings never mix, and the same
command continues what was interrupted. It writes `table1.md`, `table1.csv` and `table1_points.csv`,
the paper's own figures beside ours.

Intervals (95 %): Student's t over seeds and the bootstrap over records, added in quadrature. A
change is in percent of SGD's of the same seeds, paired over the same records. The guaranteed
epsilon is of one trial: it covers neither the choice of the point nor the other seeds.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

import sweep
from search_spaces import space as spaces
from search_spaces.expansion import own_fields
from search_spaces.paths import section_fields, set_all
from sweep.commands._options import overrides
from sweep.results.standing import half_width
from sweep.settings import from_environment
from sweep.store.sweeps import SweepFolder
from trainables import attacks, catalogue, evidence
from trainables.errors import InvalidInput
from trainables.metrics import membership
from trainables.seeding import generator

HERE = Path(__file__).parent
DECAYS = ("none", "linear", "exponential")
NOISES = ("implied", "grid")
PAPER = pd.read_csv(HERE / "paper" / "table1.csv").set_index(["data", "model"])
PAPERS_ATTACK = attacks.auc_of("shadow")
Interval = tuple[float, float, float]  # the figure, and the bounds of its 95 % interval


class Pair:
    """One corpus and one model of the table, and its sweeps."""

    def __init__(self, corpus: str, model: str, table: dict[str, Any], options: Any) -> None:
        self.corpus, self.model, self.table, self.options = corpus, model, table, options
        self.own = table["corpora"][corpus]
        self.home = from_environment().home

    def fields(self, *, epochs: int | None, fixed: dict[str, Any]) -> dict[str, Any]:
        """The fields that all trials of a sweep share."""
        model = self.table["models"][self.model]
        training = {**self.table["base"]["training"], **model["training"]}
        training["epochs"] = epochs or training["epochs"]
        base = {**self.table["base"], "data": self.own["data"], "model": model["model"]}
        given = section_fields(overrides(self.options.set)).items()
        return set_all({**base, "training": training}, [*fixed.items(), *given])

    def trials(self, part: str, document: dict[str, Any]) -> pd.DataFrame:
        """The results of one sweep of the pair, run to its end unless `--show`."""
        shared = json.dumps([document["base"], document.get("search")], sort_keys=True)
        digest = hashlib.sha256(shared.encode()).hexdigest()[:6]
        name = f"table1-{self.corpus}-{self.model}-{part}-{digest}".replace("_", "-")
        whole = {**document, "name": name, "resources": self.table["resources"]}
        if self.options.show:
            found = sweep.results(name) if SweepFolder(self.home / name).is_there else None
        else:
            print(name, flush=True)
            found = sweep.run(whole, resume=True)
        if found is None:
            return pd.DataFrame()
        return found[found["status"] == "done"].assign(sweep=name)

    def points(self, decay: str, noise: str) -> pd.DataFrame:
        """Every point of a decay with its validation SER at few epochs, the best one first."""
        coarse = {**self.table["coarse"], **self.own.get("coarse", {}).get(self.model, {})}
        wanted = self.table["decays"][decay]
        if noise == "implied":
            wanted = self.implied(decay)
        wanted = wanted[: self.options.points or self.own.get("points")]
        epochs = min(coarse["epochs"], self.options.epochs or coarse["epochs"])
        variants = [{"name": point_name(p), "set": at(decay, p)} for p in wanted]
        found = self.trials(
            f"coarse-{noise}-{decay}",
            {
                "base": self.fields(epochs=epochs, fixed=section_fields(coarse["set"])),
                "variants": variants,
                "search": coarse["search"],
            },
        )
        if found.empty:
            return found
        by_name = {point_name(p): p for p in wanted}
        found["point"] = found["variant"].map(by_name)
        return found.sort_values("validation_ser").assign(decay=decay, noise=noise)

    def implied(self, decay: str) -> list[list[float]]:
        """Points (C, z0, tau) whose `epsilon_paper` over the paper's epochs is that of its cell,
        with C, z0 and tau of its grids.
        """
        implied, delta = self.table["implied"], self.table["base"]["privacy"]["delta"]
        theirs = 10.0 ** PAPER[f"{decay}_log10_epsilon"].to_dict()[(self.corpus, self.model)]
        log = math.log(1 / delta)
        rho = (math.sqrt(theirs + log) - math.sqrt(log)) ** 2
        factor = catalogue.entry("schedules", decay).factor
        found = []
        for tau in implied["tau"][decay]:
            each = [factor(t, tau=tau) ** -2 for t in range(implied["epochs"])]
            z0 = float(f"{math.sqrt(sum(each) / (2 * rho)):.3g}")
            if 1 < z0 < 1.1:
                z0 = 1.0  # the paper's figures are rounded to a tenth of lg epsilon
            if 1e-6 <= z0 <= 1:
                found.append([z0, tau] if tau else [z0])
        spread = sorted({0, len(found) // 2, len(found) - 1}, reverse=True) if found else []
        return [[c, *found[place]] for c in implied["c"] for place in spread]

    def full(self, best: dict[str, list[float]]) -> pd.DataFrame:
        """Every method at full length over the seeds."""
        variants = []
        for name, method in self.table["methods"].items():
            if name not in ("sgd", *(self.options.method or self.own.get("methods") or [name])):
                continue
            fixed = of_space(method) if "space" in method else section_fields(method["set"])
            if "decay" not in method:
                variants.append({"name": name, "baseline": name == "sgd", "set": fixed})
                continue
            for noise in NOISES:
                row = f"{name} {noise}"
                if row in best:
                    variants.append({"name": row, "set": fixed | at(method["decay"], best[row])})
        seeds = self.options.seeds or self.own.get("seeds") or self.table["seeds"]
        epochs = self.options.epochs or self.own.get("epochs")
        base = self.fields(epochs=epochs, fixed={})
        return self.trials("full", {"base": base, "variants": variants, "repeats": seeds})

    def rows(self, found: pd.DataFrame, best: dict[str, list[float]]) -> list[dict[str, Any]]:
        """One flat row a method."""
        rows: list[dict[str, Any]] = []
        for name, trials in found.groupby("variant", sort=False):
            method, _, noise = str(name).partition(" ")
            row: dict[str, Any] = {"corpus": self.corpus, "model": self.model}
            row |= {"method": method, "noise": noise}
            point = best.get(str(name), [math.nan] * 3)
            row |= dict(zip(("c", "z0", "tau"), [*point, 0.0][:3], strict=True))
            row |= {"seeds": len(trials), "seconds": trials["seconds"].sum()}
            row |= named("ser", mean(trials, "ser")) | named("mia", mean(trials, PAPERS_ATTACK))
            row |= named("leakage", mean(trials, "leakage"))
            if name != "sgd":
                sgd = found[found["variant"] == "sgd"]
                row |= named("ser_change", self.change(trials, sgd, "ser"))
                row |= named("mia_change", self.change(trials, sgd, PAPERS_ATTACK))
            row |= {each: trials[each].max() for each in ("epsilon", "epsilon_paper")}
            rows.append(row)
        return rows

    def change(self, mine: pd.DataFrame, sgd: pd.DataFrame, metric: str) -> Interval | None:
        """The change in percent of SGD's, paired seed by seed over the same records; None where
        that attack is inverted (members score lower), because the ratio is then of no leakage.
        """
        if metric not in mine or metric not in sgd:
            return None
        pairs = [
            (i, j) for i, a in enumerate(mine["seed"]) for j, b in enumerate(sgd["seed"]) if a == b
        ]
        paired = []
        for i, j in pairs:
            places = [
                self.home / frame["sweep"].iloc[k] / "trials" / str(frame.index[k])
                for frame, k in ((mine, i), (sgd, j))
            ]
            found = ser_change(*places) if metric == "ser" else auc_change(*places)
            if found is not None:
                paired.append(found)
        sides = [
            [float(mine[metric].iloc[i]) for i, _ in pairs],
            [float(sgd[metric].iloc[j]) for _, j in pairs],
        ]
        means = [statistics.fmean(side) for side in sides]
        if not paired or (metric != "ser" and min(means) < 0.5):
            return None
        ratio = means[0] / means[1]
        parts = [
            ((factor * 100 / means[1]) ** 2 * statistics.variance(side) / len(side), len(side) - 1)
            for factor, side in ((1.0, sides[0]), (ratio, sides[1]))
            if len(side) > 1
        ]
        return widen(100 * (ratio - 1), paired, half_width(parts))


def ser_change(mine: Path, sgd: Path) -> Interval | None:
    """The change of SER of two trials over the same test records."""
    found = evidence.mean_ser_change([mine], [sgd])
    return None if found is None else bounds(found, "delta_ser_percent")


def auc_change(mine: Path, sgd: Path) -> Interval | None:
    """The change of the AUC of the paper's attack over the same records."""
    sides, ids = [], []
    for place in (mine, sgd):
        if not (place / "signals.npz").exists() or not (place / evidence.SCORES).exists():
            return None
        signals = attacks.read_signals(place / "signals.npz")
        rows = signals.is_evaluated
        ids.append(signals.records[rows])
        sides.append((evidence.read_scores(place)["shadow"][rows], signals.member[rows]))
    if not np.array_equal(ids[0], ids[1]):
        return None
    found = membership.auc_change(sides[0], sides[1], rng=generator(0, "bootstrap", "table1"))
    return bounds(found, "delta_mia_percent")


def bounds(found: dict[str, float], name: str) -> Interval:
    """A figure of that name with its interval."""
    return found[name], found[f"{name}_low"], found[f"{name}_high"]


def mean(trials: pd.DataFrame, metric: str) -> Interval | None:
    """The mean over seeds, each with the interval of its records; None without a finite one."""
    if metric not in trials:
        return None
    each = trials[np.isfinite(trials[metric].astype(float))]
    values = [float(value) for value in each[metric]]
    if not values:
        return None
    ends = [
        each[f"{metric}_{end}"] if f"{metric}_{end}" in each else each[metric]
        for end in ("low", "high")
    ]
    own = [(v, float(a), float(b)) for v, a, b in zip(values, *ends, strict=True)]
    parts = [(statistics.variance(values) / len(values), len(values) - 1)] if own[1:] else []
    return widen(statistics.fmean(values), own, half_width(parts))


def widen(value: float, of_records: Sequence[Interval], seeds: float) -> Interval:
    """`value` with the mean half-widths of `of_records` and that of `seeds` in quadrature.

    The mean, not a smaller one, because every seed is tested on the same records.
    """
    below = statistics.fmean(v - low for v, low, _ in of_records)
    above = statistics.fmean(high - v for v, _, high in of_records)
    return value, value - math.hypot(below, seeds), value + math.hypot(above, seeds)


def named(name: str, found: Interval | None) -> dict[str, float | None]:
    """A figure and its bounds as columns."""
    return dict(zip((name, f"{name}_low", f"{name}_high"), found or (None,) * 3, strict=True))


def point_name(point: Sequence[float]) -> str:
    """A point in the paper's letters.

    >>> point_name([1, 0.01, 0.1])
    'C=1 z0=0.01 tau=0.1'
    """
    return " ".join(f"{n}={v:g}" for n, v in zip(("C", "z0", "tau"), point, strict=False))


def at(decay: str, point: Sequence[float]) -> dict[str, Any]:
    """The fields of a trial of eDP-SGD at a point."""
    fields: dict[str, Any] = {"engine": "edp_sgd", "privacy.noise_decay.kind": decay}
    fields |= {"privacy.max_grad_norm": point[0], "privacy.noise_multiplier": point[1]}
    return fields | ({"privacy.noise_decay.tau": point[2]} if len(point) > 2 else {})


def of_space(method: dict[str, Any]) -> dict[str, Any]:
    """The sections of a trial of a shipped space, without its data and evaluation."""
    space = spaces.read(method["space"])
    (variant,) = [each for each in space.variants if each.name == method["variant"]]
    whole, _ = own_fields(set_all(space.base, variant.fixed.items()))
    return {name: part for name, part in whole.items() if name not in ("data", "evaluation")}


def chosen_points(file: Path | None) -> dict[tuple[str, str, str], list[float]]:
    """The best points of an earlier run, by corpus, model and decay.

    Raises: InvalidInput where the file is no `table1_points.csv`.
    """
    if file is None:
        return {}
    try:
        frame = pd.read_csv(file)
        best = frame[frame["is_best"].astype(str) == "True"]
        numbers = best[["c", "z0", "tau"]].astype(float).to_numpy().tolist()
        keys = best[["corpus", "model", "decay", "noise"]].astype(str).to_numpy().tolist()
    except (OSError, ValueError, KeyError) as error:
        raise InvalidInput(
            f"expected --points-from to be a CSV file with the columns corpus, model, decay,"
            f" noise, c, z0, tau and is_best, got {file}: {error}"
        ) from None
    found = zip(keys, numbers, strict=True)
    return {(c, m, f"{d} {n}"): p if p[2] else p[:2] for (c, m, d, n), p in found}


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The rows with the paper's own figures beside ours."""
    heads = [
        "corpus",
        "model",
        "method",
        "noise",
        "C",
        "z0",
        "tau",
        "SER %",
        "MIA %",
        "change of SER %",
    ]
    heads += ["change of MIA %", "lg epsilon, paper's formula", "epsilon guaranteed"]
    lines = [heads, ["---"] * len(heads)]
    for row in rows:
        key, method = (row["corpus"], row["model"]), row["method"]
        theirs = PAPER.to_dict("index").get(key)
        ours = [f"{row[n]:g}" if row[n] == row[n] else "" for n in ("c", "z0", "tau")]
        lines.append(
            [
                *(*key, method, row["noise"], *ours),
                *(cell(row, "ser", 100), cell(row, "mia", 100)),
                *(cell(row, "ser_change", 1), cell(row, "mia_change", 1)),
                f"{math.log10(row['epsilon_paper']):.1f}" if method in DECAYS else "",
                f"{row['epsilon']:.3g}",
            ]
        )
        if theirs is not None and method in ("sgd", *DECAYS):
            names = [f"{method}_{n}" for n in ("delta_ser", "delta_mia", "log10_epsilon")]
            figures = [theirs["sgd_ser"], theirs["sgd_mia_auc"], "", "", ""]
            if method != "sgd":
                figures = ["", "", *(theirs[name] for name in names)]
            lines.append([*key, f"{method}, paper", "", "", "", "", *map(str, figures), ""])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def cell(row: dict[str, Any], name: str, factor: float) -> str:
    """A figure with its interval; `~` marks a change whose interval contains 0."""
    value, low, high = (row.get(each) for each in (name, f"{name}_low", f"{name}_high"))
    if value is None or low is None or high is None:
        return "-"
    noise = " ~" if name.endswith("change") and low <= 0 <= high else ""
    return f"{factor * value:.1f} ({factor * low:.1f} to {factor * high:.1f}){noise}"


def main() -> None:
    """Run what has not ended, and write the table."""
    table = yaml.safe_load((HERE / "table1.yaml").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = [name for name, each in table["corpora"].items() if each.get("by_default", True)]
    parser.add_argument("--data", nargs="+", choices=table["corpora"], default=default)
    parser.add_argument("--model", nargs="+", choices=table["models"])
    parser.add_argument("--method", nargs="+", choices=table["methods"])
    parser.add_argument("--noise", nargs="+", choices=NOISES, default=NOISES)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--points", type=int, help="of each decay, the first ones")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--points-from", type=Path, metavar="CSV")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--output", type=Path, default=Path("reproduction"))
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    earlier = chosen_points(options.points_from)
    rows: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    for corpus in options.data:
        for model in options.model or table["corpora"][corpus].get("models") or table["models"]:
            source = table["corpora"][corpus].get("points_of", corpus)
            best = {d: p for (c, m, d), p in earlier.items() if (c, m) == (source, model)}
            decays = [decay for decay in DECAYS if decay in (options.method or DECAYS)]
            for decay, noise in itertools.product(decays, options.noise):
                name = f"{decay} {noise}"
                if name not in best:
                    found = Pair(source, model, table, options).points(decay, noise)
                    for place, (_, row) in enumerate(found.iterrows()):
                        point = dict(zip(("c", "z0", "tau"), [*row["point"], 0.0][:3], strict=True))
                        own = {"validation_ser": row["validation_ser"], "is_best": place == 0}
                        points.append(
                            {"corpus": source, "model": model, "decay": decay, "noise": noise}
                            | point
                            | own
                        )
                    if not found.empty:
                        best[name] = found["point"].iloc[0]
            pair = Pair(corpus, model, table, options)
            done = pair.full(best)
            rows += [] if done.empty else pair.rows(done, best)
            options.output.mkdir(parents=True, exist_ok=True)
            (options.output / "table1.md").write_text(markdown(rows))
            pd.DataFrame(rows).to_csv(options.output / "table1.csv", index=False)
            pd.DataFrame(points).to_csv(options.output / "table1_points.csv", index=False)
    print(markdown(rows))


if __name__ == "__main__":
    main()
