"""What leaves a home holds no exact function of private records: neighbouring corpora
with equal weights give byte-equal exports, privacy cards, public reports and data
cards.
"""

import json
from pathlib import Path

import pytest

from sweep.results.export import export_trial
from sweep.results.report_files import write as write_report
from sweep.synthesis.data_card import Filters
from sweep.synthesis.synthesize import write_utterances
from sweep.synthesis.trained_text import open_trained
from sweep.tracking.mlflow_store import Tracker
from tests.encoders import family_folders
from tests.sweep.neighbours import (
    content,
    corpus,
    equal_weights,
    neighbours,
    nlu_home,
    pair_neighbours,
    pair_rows,
    pairs_home,
)
from tests.sweep.sweeps import settings_in
from tests.sweep.tracking.conftest import runs_in
from tests.tasks._pairs import SMALL
from trainables.data.pairs import Pair, PairCorpus
from trainables.tasks.parsing import train_parser

ROOT = Path(__file__).parents[3]


def leaving(folder, place):
    """All files that may be handed on: exports, cards and the public report."""
    place.mkdir()
    found = {}
    with equal_weights():
        for number, record in enumerate(folder.records()):
            assert record.status == "done", record.reason
            export_trial(folder, record, place / f"export{number}")
            for name in ("privacy_card.json", "privacy_card.md"):
                card = folder.trial_folder(record.plan.id) / name
                found[f"{number}/{name}"] = card.read_bytes()
        write_report(folder, place / "report", epsilon_max=1e6, public=True)
    return found | content(place)


def require_equal(first, other, *, name):
    """One of the files is called so."""
    assert any(each.endswith(name) for each in first)
    assert first.keys() == other.keys()
    assert [each for each in first if first[each] != other[each]] == []


_NOT_PUBLIC = ("curator_only", "mlflow.")  # the latter: ids, paths, who ran it
SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("unit", "engine", "which", "is_counted"),
    [
        ("record", "edp_sgd", 0, False),
        ("group", "dp_sgd", 0, False),
        # No epsilon holds then, and still nothing that leaves tells how many there are.
        ("record", "edp_sgd", 1, True),
        pytest.param("record", "edp_sgd", 1, False, marks=SLOW),
        pytest.param("group", "dp_sgd", 1, False, marks=SLOW),
        *(
            pytest.param(*kind, which, False, marks=SLOW)
            for kind in (("record", "dp_sgd"), ("group", "edp_sgd"))
            for which in (0, 1)
        ),
    ],
)
def test_neighbouring_utterances_leave_equal_bytes(
    tmp_path, unit, engine, which, is_counted
):
    """And the table of private files names every file of a trial."""
    is_replaced = engine == "edp_sgd" and not is_counted
    relation = "replace_one" if is_replaced else "add_or_remove_one"
    left, table = [], (ROOT / "docs" / "guides" / "privacy.md").read_text()
    for name, rows in (
        ("corpus", corpus()),
        ("neighbour", neighbours(unit, relation)[which]),
    ):
        home = nlu_home(
            tmp_path / name, rows, unit=unit, engine=engine, is_counted=is_counted
        )
        [record] = home.records()
        names = {path.name for path in home.trial_folder(record.plan.id).iterdir()}
        assert {"signals.npz", "manifest.json"} <= names
        assert {each for each in names if each not in table} == set()
        left.append(leaving(home, tmp_path / f"{name} out"))
    require_equal(*left, name="weights.safetensors")


def test_exports_of_encoders_differ_by_an_id_that_is_drawn_and_nothing_else(tmp_path):
    """The id of weights that another trial can start from is no function of the
    records: it is another one in every home. `manifest.json` has the SHA-256 of its
    file.
    """
    family_folders.write(tmp_path / "public", "bert")
    model = {"name": "bert", "encoder": str(tmp_path / "public"), "num_layers": 1}
    left, relation = [], "add_or_remove_one"
    for name, rows in (
        ("corpus", corpus()),
        ("neighbour", neighbours("record", relation)[0]),
    ):
        home = nlu_home(
            tmp_path / name, rows, unit="record", engine="dp_sgd", model=model
        )
        left.append(leaving(home, tmp_path / f"{name} out"))
    origin, manifest = "export0/model/transformers/export.json", "export0/manifest.json"
    stated = [json.loads(each.pop(origin)) for each in left]
    assert stated[0].pop("id") != stated[1].pop("id")
    assert stated[0] == stated[1]
    assert stated[0].keys() == {"epsilon", "delta"}
    marks = [json.loads(each.pop(manifest))["files"] for each in left]
    for each in marks:
        del each[origin.removeprefix("export0/")]["sha256"]
    assert marks[0] == marks[1]
    require_equal(*left, name="transformers/model.safetensors")


def public_metrics(folder, settings):
    """The public part of what MLflow holds of a sweep."""
    import mlflow

    with equal_weights():
        Tracker(settings).deliver(folder)
    client, found = mlflow.MlflowClient(settings.tracking_uri), {}
    for name, run in runs_in(settings).items():
        tags = {k: v for k, v in run.data.tags.items() if not k.startswith(_NOT_PUBLIC)}
        hidden = run.data.tags.get("curator_only", "").split(", ")
        figures = {k: v for k, v in run.data.metrics.items() if k not in hidden}
        del tags["sweep.id"]
        found |= {f"{name}/tags": tags, f"{name}/metrics": figures}
        found[f"{name}/params"] = run.data.params
        for item in client.list_artifacts(run.info.run_id):
            if not item.is_dir:
                path = Path(client.download_artifacts(run.info.run_id, item.path))
                found[f"{name}/{item.path}"] = path.read_bytes()
    return found


@SLOW  # MLflow makes two stores
@pytest.mark.filterwarnings("ignore")
def test_the_public_part_of_mlflow_is_equal_for_neighbours(tmp_path):
    left = []
    for name, rows in (
        ("a", corpus()),
        ("b", neighbours("record", "add_or_remove_one")[0]),
    ):
        folder = nlu_home(tmp_path / name, rows, unit="record", engine="dp_sgd")
        left.append(public_metrics(folder, settings_in(tmp_path / name)))
    require_equal(*left, name="privacy_card.json")


METHODS = {
    "one stage": {},
    "two stages, a parser": {
        "synthesis.method": "two_stage",
        "synthesis.parse_epochs": 1,
    },
    "couples": {
        "synthesis.method": "two_stage",
        "synthesis.parse_epochs": 1,
        "synthesis.shuffle_pairs": True,
    },
}
PAIRS = [
    ("one stage", "add_or_remove_one", 0),
    pytest.param("one stage", "replace_one", 0, marks=SLOW),
    pytest.param("one stage", "replace_one", 1, marks=SLOW),
    pytest.param("one stage", "add_or_remove_one", 1, marks=SLOW),
    pytest.param("two stages, a parser", "add_or_remove_one", 0, marks=SLOW),
    pytest.param("couples", "replace_one", 1, marks=SLOW),
]


@pytest.mark.parametrize(("method", "relation", "which"), PAIRS)
def test_neighbouring_pairs_leave_equal_bytes(
    tmp_path, monkeypatch, method, relation, which
):
    """Exports, cards, public reports, and what `sweep synthesize` writes."""
    monkeypatch.setattr("trainables.metrics.text_space.figures", lambda *a, **k: {})
    found = []
    for name, rows in (
        ("corpus", pair_rows()),
        ("neighbour", pair_neighbours(relation)[which]),
    ):
        folder = pairs_home(tmp_path / name, rows, relation=relation, **METHODS[method])
        left = leaving(folder, tmp_path / f"{name} out")
        to = tmp_path / f"{name} out" / "made.jsonl"
        write_utterances(
            open_trained(to.parent / "export0"),
            to=to,
            number=3,
            filters=Filters(min_words=0, patterns={}),
        )
        found.append(left | content(to.parent))
    require_equal(*found, name="made.card.json")


def test_parsers_of_neighbouring_pairs_are_equal_files(tmp_path, monkeypatch):
    """A parser's folder holds the words of its pairs and is not private; of the same
    words and weights it says nothing more.
    """
    monkeypatch.setattr("trainables.tasks.parsing._fit", lambda *args, **kwargs: None)
    found = []
    for name, rows in (
        ("corpus", pair_rows()),
        ("neighbour", pair_neighbours("replace_one")[0]),
    ):
        pairs = tuple(
            Pair(row["utterance"], row["lispress"], dialogue="d") for row in rows
        )
        train_parser(
            PairCorpus("mine", pairs, public=False), settings=SMALL, seed=0
        ).save(tmp_path / name)
        found.append(content(tmp_path / name))
    assert found[0] == found[1]
