"""Neighbouring corpora, and sweeps on them whose trials end with equal weights.

A trial of these sweeps takes no step: its weights are those that its seed gives,
whatever the records are. So what differs between two neighbouring homes is an exact
function of the records.
"""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from search_spaces import space as spaces
from sweep.planning.prepare import prepare_space
from sweep.runtime import runner
from tests.lines import write_lines
from tests.sweep.sweeps import settings_in, shared_figures
from tests.sweep.untracked import without_mlflow
from tests.tasks._pairs import made_pairs, tiny, write_pairs
from trainables.dp.engines.engine import Engine

_TIMED = (
    "training",
    "tasks._trial_result",
    "tasks._leakage",
)  # their times are figures
_NAMES = ("ann", "bob", "cyd", "dee", "eli", "fay", "gus", "hal", "ida", "joe")


def utterances(number, *, part):
    """Rows with frames, two by the same person."""
    return [
        {
            "tokens": [
                "call" if n % 2 else "text",
                _NAMES[n % 10],
                f"w{n // 10}",
                part,
            ],
            "tags": ["O", "B-contact", "O", "O"],
            "intent": "call" if n % 2 else "text",
            "part": part,
            "group": f"{part}{n // 2}",
        }
        for n in range(number)
    ]


def corpus():
    """A training, a validation and a test part."""
    return [
        *utterances(40, part="train"),
        *utterances(12, part="validation"),
        *utterances(16, part="test"),
    ]


def longer(row, number):
    """Another record in the place of `row`: unseen words, another length, another
    intent.
    """
    words = [f"unseen{number}", *row["tokens"], "today"]
    tags = ["O", *row["tags"], "O"]
    intent = "text" if row["intent"] == "call" else "call"
    return {**row, "tokens": words, "tags": tags, "intent": intent}


def neighbours(unit, relation):
    """Corpora that each differ from `corpus()` in one training record, or one person's
    records: two with other records in their place (one is another record's text, which
    is read, dropped and counted), or one with fewer and one with more.
    """
    rows = corpus()
    places = [4] if unit == "record" else [4, 5]
    if relation == "replace_one":
        other = [longer(row, n) if n in places else row for n, row in enumerate(rows)]
        doubled = [
            {**rows[8], "group": r["group"]} if n in places else r
            for n, r in enumerate(rows)
        ]
        return [doubled, other]
    fewer = [row for n, row in enumerate(rows) if n not in places]
    more = [
        *rows[:6],
        *(longer(rows[n], n) | {"group": "new"} for n in places),
        *rows[6:],
    ]
    return [fewer, more]


@contextmanager
def equal_weights():
    """No step is taken, and no clock runs: time is another channel, and not part of the
    claim.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "run_epoch", lambda self, epoch: {"train_loss": 1.0})
        patch.setattr("time.time", lambda: 1e9)
        stopped = SimpleNamespace(perf_counter=lambda: 1e9)
        for module in _TIMED:
            patch.setattr(f"trainables.{module}.time", stopped)
        yield


def still_sweep(folder, base, **fields):
    """A sweep named `still` of one trial, run in `folder` to its end."""
    document = {
        "name": "still",
        "base": base,
        "resources": {"executor": "local"},
        **fields,
    }
    settings = settings_in(folder)
    with shared_figures(settings):
        prepared = prepare_space(spaces.parse(document), settings=settings)
        with without_mlflow(), equal_weights():
            return runner.start(prepared, settings, command=["test"]).folder


def nlu_base(unit, engine):
    """Fields of a tiny trial on the corpus of a folder."""
    privacy = {"delta": 1e-3}
    if unit == "group":
        privacy |= {"unit": "group", "max_records_per_group": 2}
    return {
        "engine": engine,
        "data": {
            "name": "json_lines",
            "path": "mine.jsonl",
            "schema_file": "schema.json",
            "num_records": 20 if unit == "group" else 40,
            "split": "official",
        },
        "model": {
            "name": "clc",
            **{"word_buckets": 64, "word_dim": 8, "char_dim": 4, "char_filters": 6},
            **{"hidden_size": 12, "num_layers": 1},
        },
        "training": {"epochs": 2, "expected_batch_size": 10, "num_workers": 2},
        "privacy": privacy,
        "evaluation": {"attacks": ["loss_threshold"], "bootstrap_samples": 20},
    }


def nlu_home(folder, rows, *, unit, engine, is_counted=False, model=None):
    """A finished sweep on a corpus with frames. `is_counted`: its size is not declared.
    `model`: fields of another model.
    """
    folder.mkdir()
    write_lines(folder / "mine.jsonl", rows)
    schema = {"intents": ["call", "text"], "slots": ["contact"]}
    (folder / "schema.json").write_text(json.dumps(schema))
    base = nlu_base(unit, engine)
    base["model"] = model or base["model"]
    if is_counted:
        del base["data"]["num_records"]
    return still_sweep(folder, base)


def content(folder):
    """Every file under a folder by its path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class _InOrder:
    """Draws that do not depend on how many records there are, so that a record more or
    less leaves the others where they were: the split is outside of the claim.
    """

    def permutation(self, ids):
        return np.arange(ids) if isinstance(ids, int) else np.array(ids)


def pair_rows():
    """Training pairs; with `_InOrder` the first quarter is public."""
    return made_pairs(60)


def pair_neighbours(relation):
    """Corpora that each differ from `pair_rows()` in a private training record, the
    last one.
    """
    rows = pair_rows()
    if relation == "replace_one":
        other = {
            "utterance": "show me every unseen thing",
            "lispress": '(Yield (FindEvent (With "Zoe")))',
            "domain": "calendar",
        }
        return [[*rows[:-1], rows[-4]], [*rows[:-1], other]]
    return [rows[:-1], [*rows, rows[20]]]


def pairs_home(folder, rows, *, relation, **changes):
    """A finished sweep on a corpus of pairs."""
    folder.mkdir()
    place = write_pairs(folder, training=1, human=20)
    write_lines(place / "pairs_train.jsonl", rows)
    sampling = "shuffle" if relation == "replace_one" else "poisson"
    privacy = {
        "privacy.delta": 1e-3,
        "privacy.noise_multiplier": 0.8,
        "privacy.sampling": sampling,
    }
    batch = {"training.expected_batch_size": 10, "training.num_workers": 1}
    declared = {"data.name": "pair_lines", "data.path": "pairs", "data.num_records": 44}
    config = tiny(place, **{**privacy, **batch, **declared, **changes})
    base = config.model_dump(mode="json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainables.data.pair_split.generator", lambda *key: _InOrder())
        return still_sweep(folder, base)
