"""Small sweeps for tests: a user's corpus, a toy trial, everything in one folder."""

import json
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from search_spaces import space as spaces
from sweep.planning import prepare
from sweep.runtime import runner
from sweep.settings import Settings, sqlite_uri
from sweep.spending.ledger import FILE, Ledger
from tests.lines import write_lines
from trainables.dp.accounting import certification

TOY = "tests.sweep.toy_trial:run"
NUM_RECORDS = 200


def settings_in(folder):
    home = folder / "home"
    return Settings(
        home=home,
        data_dir=folder,
        cache_dir=home / "cache",
        tracking_uri=sqlite_uri(home / "mlflow.db"),
    )


def write_corpus(folder):
    """Data fields of a corpus that is written once."""
    path, schema = folder / "mine.jsonl", folder / "mine.schema.json"
    if not path.exists():
        rows = [
            {
                "tokens": ["call", f"person{n}", "now"],
                "tags": ["O", "B-contact", "O"],
                "intent": "call" if n % 2 else "text",
            }
            for n in range(NUM_RECORDS)
        ]
        write_lines(path, rows)
        schema.write_text(
            json.dumps({"intents": ["call", "text"], "slots": ["contact"]})
        )
    return {
        "name": "json_lines",
        "path": str(path),
        "schema_file": str(schema),
        "num_records": 90,
    }


def space_in(folder, **fields):
    """Three trials of the toy, a baseline among them, unless `fields` say otherwise."""
    base = {
        "data": write_corpus(folder),
        "training": {"epochs": 3, "expected_batch_size": 30, "num_workers": 2},
        "evaluation": {"attacks": []},
        **fields.pop("base", {}),
    }
    document = {
        "name": "toy",
        "base": base,
        "variants": [
            {
                "name": "sgd",
                "baseline": True,
                "set": {"engine": "sgd"},
                "drop_axes": "all",
            },
            {"name": "edp", "axes": {"privacy.noise_multiplier": [0.5, 1.0]}},
        ],
        "resources": {"executor": "local"},
        **fields,
    }
    return spaces.parse(document)


def prepared_in(folder, **fields):
    return prepare.prepare_space(
        space_in(folder, **fields), settings=settings_in(folder)
    )


def ledger_of(folder):
    """The ledger of a sweep's home."""
    return Ledger(folder.path.parent / FILE)


def statuses(folder):
    return [record.status for record in folder.records()]


@cache
def _tables():
    """A store of MLflow without a run."""
    from mlflow import MlflowClient

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "mlflow.db")
        MlflowClient(sqlite_uri(file)).search_experiments()
        return file.read_bytes()


def make_store(settings):
    """Give a new home a copy of a store, whose tables MLflow makes for a second."""
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = settings.home / "mlflow.db"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_bytes(_tables())


_bounds = cache(certification._bounds.__wrapped__)
_figures = (
    b""  # of the mechanisms that sweeps of this process have had: each takes seconds
)


@contextmanager
def medium_grids():
    """Exact figures are from the grid of running totals: a finer one takes seconds a
    mechanism.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(certification._POINTS, "exact", certification._POINTS["running"])
        patch.setattr(certification, "_bounds", _bounds)
        yield


@contextmanager
def shared_figures(settings):
    """A new home begins with the figures of the ones before it, of grids that are at
    hand.
    """
    global _figures
    known = settings.cache_dir / "figures.jsonl"
    if _figures and not known.exists():
        known.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        known.write_bytes(_figures)
    try:
        with medium_grids():
            yield
    finally:
        if known.exists():
            _figures = max(_figures, known.read_bytes(), key=len)


def run_toy(folder, *, function=TOY, **fields):
    settings = settings_in(folder)
    with shared_figures(settings):
        prepared = prepared_in(folder, **fields)
        return runner.start(prepared, settings, command=["test"], function=function)
