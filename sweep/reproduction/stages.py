"""The stages of a table as ordinary search spaces. Pure: what runs, under which name.

A stage's name ends with a digest of its settings, those that all its trials share. So other
settings make another sweep; more points, seeds or methods extend the same one, and rows are of the
trials that the present description has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from search_spaces import space as spaces
from search_spaces.foreign import own_fields
from search_spaces.paths import section_fields, set_all, set_path
from search_spaces.space import SearchSpace
from sweep.reproduction.description import Method, Pair, Point, Table
from trainables import catalogue
from trainables.config import parse as parse_config
from trainables.errors import InvalidInput

TABLE = "table1"
COARSE, FULL, LEAKAGE = "coarse", "full", "leakage"
_CLIP_NORM, _NOISE = AT_A_POINT = ("privacy.max_grad_norm", "privacy.noise_multiplier")
Points = Mapping[str, Point]  # of each decay, the best one


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One sweep of a table. `part` is coarse, full or leakage; `methods` maps each variant of the
    space to its row: the method's name, for the coarse part that of the decay.
    """

    pair: Pair
    part: str
    decay: str | None
    space: SearchSpace
    methods: dict[str, str]
    points: dict[str, Point]

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.space.name


def coarse(table: Table, pair: Pair, decay: str) -> Stage:
    """Every wanted point of one decay at few epochs."""
    wanted = table.decays[decay][: table.corpora[pair.corpus].points]
    method = next(name for name, each in table.methods.items() if each.decay == decay)
    short = table.coarse_of(pair)
    base = _fields(table, pair, epochs=short.epochs, fixed=short.fixed)
    variants = [
        {
            "name": point.name,
            "set": {**_settings_of(table, table.methods[method]), **_at(decay, point)},
        }
        for point in wanted
    ]
    return Stage(
        pair=pair,
        part=COARSE,
        decay=decay,
        space=_space(
            f"{TABLE}-{pair.name}-{COARSE}-{decay}",
            {"base": base, "variants": variants, "search": short.search},
            table=table,
        ),
        methods={point.name: method for point in wanted},
        points={point.name: point for point in wanted},
    )


def full(table: Table, pair: Pair, best: Points) -> Stage:
    """Every method of the pair at full length over the seeds, each decay at its best point."""
    corpus = table.corpora[pair.corpus]
    base = _fields(table, pair, epochs=corpus.epochs)
    names = corpus.methods or tuple(table.methods)
    seeds = corpus.seeds or table.seeds
    return _of_methods(table, pair, FULL, names, best, base=base, seeds=seeds)


def leakage(table: Table, pair: Pair, method: str, best: Points) -> Stage:
    """The baseline and one method with a coin for each record and trial."""
    base = _fields(table, pair, epochs=table.corpora[pair.corpus].epochs, fixed=table.leakage.fixed)
    names = (*(n for n, m in table.methods.items() if m.baseline and m.space is None), method)
    return _of_methods(table, pair, LEAKAGE, names, best, base=base, seeds=table.leakage.seeds)


def _of_methods(
    table: Table,
    pair: Pair,
    part: str,
    names: Iterable[str],
    best: Points,
    *,
    base: dict[str, Any],
    seeds: int,
) -> Stage:
    methods = {name: table.methods[name] for name in names}
    variants, points = [], {}
    for method in methods.values():
        fixed = _settings_of(table, method)
        if method.decay is not None:
            point = best[method.decay]
            points[method.label] = point
            fixed |= _at(method.decay, point)
        variants.append({"name": method.label, "baseline": method.baseline, "set": fixed})
    return Stage(
        pair=pair,
        part=part,
        decay=None,
        space=_space(
            f"{TABLE}-{pair.name}-{part}",
            {"base": base, "variants": variants, "repeats": seeds},
            table=table,
        ),
        methods={method.label: name for name, method in methods.items()},
        points=points,
    )


def _fields(
    table: Table, pair: Pair, *, epochs: int | None = None, fixed: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The fields of every trial of a pair before its method's."""
    model = table.models[pair.model]
    training = {**table.base.get("training", {}), **model.training}
    if epochs is not None:
        training["epochs"] = epochs
    fields = {
        **table.base,
        "data": {**table.base.get("data", {}), **table.corpora[pair.corpus].data},
        "model": model.model,
        "training": training,
    }
    return set_all(fields, (fixed or {}).items())


def _settings_of(table: Table, method: Method) -> dict[str, Any]:
    """What a method sets: its own fields, or the sections of a trial of a shipped space, with the
    table's `privacy` where it is a private one.
    """
    fixed = section_fields(method.fixed) if method.space is None else _of_space(method)
    engine = fixed.get("engine", table.base.get("engine"))
    if engine is not None and catalogue.kind_of("engines", engine) != "private":
        return fixed
    for path, value in table.privacy.items():
        if method.decay is not None and path.startswith(AT_A_POINT):
            continue
        fixed = {**fixed, path: value} if method.space is None else set_path(fixed, path, value)
    return fixed


def _of_space(method: Method) -> dict[str, Any]:
    space = spaces.read(method.space or "")
    variant = next((each for each in space.variants if each.name == method.variant), None)
    if variant is None:
        raise InvalidInput(f"expected a variant {method.variant!r} of {method.space}")
    whole, _ = own_fields(set_all(space.base, variant.fixed.items()))
    return {name: part for name, part in whole.items() if name not in ("data", "evaluation")}


def _at(decay: str, point: Point) -> dict[str, Any]:
    found = {_CLIP_NORM: point.c, _NOISE: point.z0, "privacy.noise_decay.kind": decay}
    return found | ({"privacy.noise_decay.tau": point.tau} if point.tau else {})


def _space(name: str, document: dict[str, Any], *, table: Table) -> SearchSpace:
    """The space under a name that its settings determine, defaults included."""
    base, search = document["base"], document.get("search", {})
    defaults = parse_config(own_fields(base)[0]).id
    text = json.dumps([base, defaults, search], sort_keys=True)
    return spaces.parse(
        {
            **document,
            "name": f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:6]}",
            "source": "Dupuy et al. 2021 (arXiv 2107.14586)",
            "resources": table.resources,
        }
    )
