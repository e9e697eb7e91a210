"""A home with a finished sweep under a budget, a finished private selection and a
stopped sweep; older copies of all its files, and another home's.
"""

import re
import shutil
from contextlib import contextmanager
from functools import partial

import pytest

from sweep.runtime import runner
from sweep.search import private_selection
from sweep.store import sweeps as store
from tests.sweep import toy_trial
from tests.sweep.sweeps import TOY, prepared_in, settings_in, shared_figures
from tests.sweep.untracked import without_mlflow

_PRIVATE = {"engine": "dp_sgd", "training": {"epochs": 2, "expected_batch_size": 30}}
_NOISE = {"privacy.noise_multiplier": [4.0, 8.0]}
BUDGET = 20.0  # of the data set in all sweeps
SWEEPS = {
    "done": {
        "variants": [],
        "base": _PRIVATE,
        "axes": _NOISE,
        "budget": {"total": 5.0},
    },
    "picked": {
        "variants": [],
        "base": _PRIVATE,
        "axes": {"privacy.max_grad_norm": [0.5, 1.0]},
        "search": {
            "strategy": "private_selection",
            "num_trials": {"law": "geometric", "mean": 2},
        },
    },
    "stopped": {
        "variants": [],
        "base": _PRIVATE,
        "axes": {"privacy.noise_multiplier": [5.0, 6.0]},
    },
}


class Killed(BaseException):
    """The process is gone."""


@contextmanager
def killed_before_epoch(number):
    """The toy's process dies before it trains this epoch, counted over all trials from
    1.
    """
    calls = iter(range(1, 1_000))

    def fault(folder, rank, epoch):
        if next(calls) == number:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toy_trial, "_fault", fault)
        yield


def interrupted(place, name, *, before):
    settings = settings_in(place)
    if name in store.names(settings.home):
        run = partial(runner.resume, store.open_sweep(settings.home, name), settings)
    else:
        prepared = prepared_in(place, name=name, **SWEEPS[name])
        run = partial(runner.start, prepared, settings, budget_total=BUDGET)
    with killed_before_epoch(before), without_mlflow(), pytest.raises(Killed):
        run(function=TOY)


def build(place):
    """The home in `place`, beside it `older`: what it was when each sweep was in its
    midst.
    """
    place.mkdir()
    settings = settings_in(place)
    with pytest.MonkeyPatch.context() as patch, shared_figures(settings):
        patch.setattr(private_selection, "draw_number", lambda law, random: 2)
        for name in SWEEPS:
            interrupted(place, name, before=2)
        shutil.copytree(settings.home, place / "older")
        for name in ("done", "picked"):
            with without_mlflow():
                runner.resume(
                    store.open_sweep(settings.home, name), settings, function=TOY
                )
        interrupted(place, "stopped", before=3)


def _remove(file, older, other):
    file.unlink()


def _empty(file, older, other):
    file.write_bytes(b"")


def _cut(file, older, other):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def _older(file, older, other):
    shutil.copyfile(older, file)


def _others(file, older, other):
    shutil.copyfile(other, file)


DAMAGES = {
    "removed": _remove,
    "emptied": _empty,
    "cut": _cut,
    "older": _older,
    "another home's": _others,
}


_NAMES = (
    (r"\.records/[^/]+", ".records/DATA.u64"),
    (r"draw-[0-9a-f]{8}-[0-9a-f]{12}", "DRAW"),
    (r"trials/[0-9a-f]{12}", "trials/ID"),
    (r"-[0-9a-f]{16}\b", "-KEY"),
)


def by_name(home):
    """A file of the home for each name that does not depend on the home, but for the
    toy's own; a trial that has not ended is called OPEN.
    """
    found = {}
    for path in sorted(path for path in home.rglob("*") if path.is_file()):
        name = place = path.relative_to(home).as_posix()
        parts = name.split("/")
        if (
            parts[1:2] == ["trials"]
            and (home / "/".join(parts[:3]) / "checkpoint").exists()
        ):
            name = "/".join([parts[0], "trials", "OPEN", *parts[3:]])
        for pattern, word in _NAMES:
            name = re.sub(pattern, word, name)
        if path.name != "trained.txt":
            found.setdefault(name, place)
    return found


REFUSED, FAILED, MARKED, SAME, NONE = "refused", "failed", "marked", "same", "-"
# By file: what happens where it is removed, emptied, cut, older, another home's. "-":
# it is empty, has no older copy, or is the same in every home.
_LOG = {
    "sweep.jsonl": (REFUSED,) * 5,
    "sweep.head": (REFUSED, REFUSED, REFUSED, SAME, REFUSED),
    "sweep.lock": (SAME, NONE, NONE, NONE, NONE),
    "lock": (SAME, NONE, NONE, NONE, NONE),
    "space.yaml": (SAME, SAME, SAME, NONE, SAME),
}
_ENDED = {
    "config.yaml": (REFUSED, REFUSED, REFUSED, NONE, REFUSED),
    "manifest.json": (REFUSED, REFUSED, REFUSED, NONE, REFUSED),
    "model/model.json": (REFUSED, REFUSED, REFUSED, NONE, NONE),
    "model/weights.safetensors": (REFUSED, REFUSED, REFUSED, NONE, NONE),
    "privacy_card.json": (REFUSED, REFUSED, REFUSED, NONE, REFUSED),
    "privacy_card.md": (REFUSED, REFUSED, REFUSED, NONE, REFUSED),
}
_ENCODED = (
    "corpus.json",
    "intents.npy",
    "offsets.npy",
    "outside.npy",
    "part.npy",
    "tags.npy",
)
TABLE = {
    "ledger.jsonl": (REFUSED,) * 5,
    "ledger.head": (REFUSED, REFUSED, REFUSED, SAME, REFUSED),
    "ledger.key": (REFUSED, REFUSED, REFUSED, NONE, REFUSED),
    "ledger.lock": (SAME, NONE, NONE, NONE, NONE),
    "ledger.records/DATA.u64": (REFUSED, REFUSED, REFUSED, NONE, REFUSED),
    **{f"done/{name}": answers for name, answers in _LOG.items()},
    **{f"done/trials/ID/{name}": answers for name, answers in _ENDED.items()},
    **{f"picked/{name}": answers for name, answers in _LOG.items()},
    **{f"picked/trials/ID/{name}": answers for name, answers in _ENDED.items()},
    "picked/vault/ledger.jsonl": (REFUSED,) * 5,
    "picked/vault/ledger.head": (REFUSED, REFUSED, REFUSED, SAME, REFUSED),
    "picked/vault/ledger.key": (SAME, SAME, SAME, NONE, SAME),
    "picked/vault/ledger.lock": (SAME, NONE, NONE, NONE, NONE),
    **{f"picked/vault/draws/{name}": answers for name, answers in _LOG.items()},
    **{
        f"picked/vault/draws/trials/DRAW/{name}": answers
        for name, answers in _ENDED.items()
    },
    **{f"stopped/{name}": answers for name, answers in _LOG.items()},
    **{f"stopped/trials/ID/{name}": answers for name, answers in _ENDED.items()},
    "stopped/trials/OPEN/checkpoint/state.json": (FAILED, FAILED, FAILED, NONE, FAILED),
    "stopped/trials/OPEN/checkpoint/tensors.safetensors": (
        FAILED,
        FAILED,
        FAILED,
        NONE,
        FAILED,
    ),
    "stopped/trials/OPEN/config.yaml": (SAME, SAME, SAME, NONE, SAME),
    "cache/figures.jsonl": (SAME, SAME, SAME, NONE, NONE),
    "cache/.json_lines-KEY.lock": (SAME, NONE, NONE, NONE, NONE),
    **{
        f"cache/json_lines-KEY/{name}": (REFUSED, REFUSED, REFUSED, NONE, NONE)
        for name in (*_ENCODED, "tokens.npy", "types.txt")
    },
}
