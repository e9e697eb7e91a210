"""What a command line changes in a table: its fields, and how many points, seeds and epochs."""

from __future__ import annotations

from typing import Any, TypeVar

from search_spaces.paths import outermost_first, set_path
from sweep.reproduction.description import Length, Table, parse
from sweep.reproduction.stages import AT_A_POINT
from trainables.errors import InvalidInput

_Pass = TypeVar("_Pass", bound=Length)
_OTHER_THAN_TRIALS = ("search", "resources")
# What the rows of a table differ in, and the option that chooses it.
_CHOSEN_BY = {
    "data": "--data",
    "data.name": "--data",
    "model": "--model",
    "model.name": "--model",
    "engine": "--method",
    "privacy": "the fields of privacy one by one",
    "privacy.noise_decay": "--method",
    "training": "the fields of training one by one",
    "training.epochs": "--epochs",
    "training.seed": "--seeds",
}


def with_changes(
    table: Table,
    *,
    smoke: bool = False,
    seeds: int | None = None,
    points: int | None = None,
    epochs: int | None = None,
    assignments: dict[str, Any] | None = None,
) -> Table:
    """The table with what a command line changes; `assignments` by dotted paths of a config, of
    `resources` or of `search`.

    Raises: InvalidInput for a field that no trial has, or that another option sets.
    """
    _refuse_other_options(assignments or {})
    if smoke:
        seeds, points = seeds or table.smoke.seeds, points or table.smoke.points
        table = _short_version(table)
    table = _with_fields(table, assignments or {})
    return _with_counts(table, seeds=seeds, points=points, epochs=epochs)


def _short_version(table: Table) -> Table:
    """The table of the short version."""
    short = table.smoke
    coarse = {"epochs": short.coarse_epochs, "search": {**table.coarse.search, **short.search}}
    own: dict[str, Any] = {"methods": short.methods, "coarse": {}}
    return _with_fields(
        table.model_copy(
            update={
                "resources": short.resources,
                "coarse": table.coarse.model_copy(update=coarse),
                "leakage": table.leakage.model_copy(update={"seeds": short.leakage_seeds}),
                "corpora": {n: c.model_copy(update=own) for n, c in table.corpora.items()},
            }
        ),
        short.fixed,
    )


def _refuse_other_options(assignments: dict[str, Any]) -> None:
    for path in assignments:
        name = "privacy.noise_decay" if path.startswith("privacy.noise_decay.") else path
        if name in _CHOSEN_BY:
            raise InvalidInput(
                f"expected {_CHOSEN_BY[name]} in place of --set {path}: the rows of the table"
                " differ in it"
            )


def _with_fields(table: Table, fixed: dict[str, Any]) -> Table:
    """The fields in the base, in every corpus' and model's part and in resources and search; those
    of privacy also for methods that have their own value.
    """
    whole = table.model_dump(by_alias=True)
    for path, value in outermost_first(fixed.items()):
        head = path.split(".")[0]
        if head == "search":
            own = [each for c in whole["corpora"].values() for each in c["coarse"].values()]
            for coarse in (whole["coarse"], *own):
                coarse.update(set_path(coarse, path, value))
        elif head in _OTHER_THAN_TRIALS:
            whole = set_path(whole, path, value)
        elif head in ("model", "training"):
            for model in whole["models"].values():
                model.update(set_path(model, path, value))
        elif head == "data":
            for corpus in whole["corpora"].values():
                corpus.update(set_path(corpus, path, value))
        else:
            if head == "privacy":
                whole["privacy"][path] = value
            # Where each point has its own, the base's value would be of no trial.
            if not path.startswith(AT_A_POINT):
                whole["base"] = set_path(whole["base"], path, value)
    return parse(whole)


def _with_counts(
    table: Table, *, seeds: int | None, points: int | None, epochs: int | None
) -> Table:
    own: dict[str, Any] = {"seeds": seeds, "points": points, "epochs": epochs}
    given = {name: value for name, value in own.items() if value is not None}
    corpora = {
        name: corpus.model_copy(
            update={
                **given,
                "coarse": {m: _at_most(each, epochs) for m, each in corpus.coarse.items()},
            }
        )
        for name, corpus in table.corpora.items()
    }
    coarse = _at_most(table.coarse, epochs)
    return table.model_copy(
        update={"corpora": corpora, "coarse": coarse, "seeds": seeds or table.seeds}
    )


def _at_most(coarse: _Pass, epochs: int | None) -> _Pass:
    """The pass with no more epochs than the full stage; None: the table's."""
    if epochs is None:
        return coarse
    return coarse.model_copy(update={"epochs": min(coarse.epochs, epochs)})
