"""What leaves a home holds no exact function of private records: neighbouring corpora with equal
weights give byte-equal exports, privacy cards, public reports and data cards.
"""

from pathlib import Path

import pytest

from sweep.results.export import export_trial
from sweep.results.report_files import write as write_report
from sweep.synthesis.data_card import Filters
from sweep.synthesis.synthesize import write_utterances
from sweep.synthesis.trained_text import open_trained
from sweep.tracking.mlflow_store import Tracker
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
from tests.tasks._pairs import SMALL
from trainables.data.pairs import Pair, corpus_of
from trainables.tasks.parsing import train_parser


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


def test_the_table_of_private_files_names_every_file_of_a_trial(tmp_path):
    folder = nlu_home(tmp_path / "a", corpus(), unit="record", engine="edp_sgd")
    table = (Path(__file__).parents[3] / "docs" / "guides" / "privacy.md").read_text(
        encoding="utf-8"
    )
    [record] = folder.records()
    names = {path.name for path in folder.trial_folder(record.plan.id).iterdir()}
    assert {"signals.npz", "manifest.json"} <= names
    assert {name for name in names if name not in table} == set()


_NOT_PUBLIC = ("curator_only", "mlflow.")  # the latter: ids, paths, who ran it
UNITS = [
    ("record", "edp_sgd"),
    ("group", "dp_sgd"),
    pytest.param("record", "dp_sgd", marks=pytest.mark.slow),
    pytest.param("group", "edp_sgd", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("unit", "engine"), UNITS)
@pytest.mark.parametrize("which", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_neighbouring_utterances_leave_equal_bytes(tmp_path, unit, engine, which):
    relation = "replace_one" if engine == "edp_sgd" else "add_or_remove_one"
    rows = neighbours(unit, relation)[which]
    first, other = (
        leaving(nlu_home(tmp_path / name, one, unit=unit, engine=engine), tmp_path / f"{name} out")
        for name, one in (("corpus", corpus()), ("neighbour", rows))
    )
    assert any(name.endswith("weights.safetensors") for name in first)
    assert first.keys() == other.keys()
    assert [name for name in first if first[name] != other[name]] == []


def test_a_counted_number_of_records_leaves_equal_bytes(tmp_path):
    """No epsilon holds then, and still nothing that leaves tells how many there are."""
    homes = (("corpus", corpus()), ("one more", neighbours("record", "add_or_remove_one")[1]))
    first, other = (
        leaving(
            nlu_home(tmp_path / name, rows, unit="record", engine="edp_sgd", is_counted=True),
            tmp_path / f"{name} out",
        )
        for name, rows in homes
    )
    assert first.keys() == other.keys()
    assert [name for name in first if first[name] != other[name]] == []


def public_metrics(folder, settings):
    """The public part of what MLflow holds of a sweep."""
    import mlflow

    with equal_weights():
        Tracker(settings).deliver(folder)
    client = mlflow.MlflowClient(settings.tracking_uri)
    experiments = [each.experiment_id for each in client.search_experiments()]
    found = {}
    for run in client.search_runs(experiments):
        name = run.data.tags.get("sweep.trial", "")
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


@pytest.mark.slow  # MLflow makes two stores
@pytest.mark.filterwarnings("ignore")
def test_the_public_part_of_mlflow_is_equal_for_neighbours(tmp_path):
    left = []
    for name, rows in (("a", corpus()), ("b", neighbours("record", "add_or_remove_one")[0])):
        folder = nlu_home(tmp_path / name, rows, unit="record", engine="dp_sgd")
        left.append(public_metrics(folder, settings_in(tmp_path / name)))
    first, other = left
    assert any(name.endswith("privacy_card.json") for name in first)
    assert first.keys() == other.keys()
    assert [name for name in first if first[name] != other[name]] == []


METHODS = {
    "one stage": {},
    "two stages, a parser": {"synthesis.method": "two_stage", "synthesis.parse_epochs": 1},
    "couples": {
        "synthesis.method": "two_stage",
        "synthesis.parse_epochs": 1,
        "synthesis.shuffle_pairs": True,
    },
}
PAIRS = [
    ("one stage", "add_or_remove_one", 0),
    pytest.param("one stage", "replace_one", 0, marks=pytest.mark.slow),
    pytest.param("one stage", "replace_one", 1, marks=pytest.mark.slow),
    pytest.param("one stage", "add_or_remove_one", 1, marks=pytest.mark.slow),
    pytest.param("two stages, a parser", "add_or_remove_one", 0, marks=pytest.mark.slow),
    pytest.param("couples", "replace_one", 1, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("method", "relation", "which"), PAIRS)
def test_neighbouring_pairs_leave_equal_bytes(tmp_path, monkeypatch, method, relation, which):
    """Exports, cards, public reports, and what `sweep synthesize` writes."""
    monkeypatch.setattr("trainables.metrics.text_space.figures", lambda *a, **k: {})
    found = []
    for name, rows in (("corpus", pair_rows()), ("neighbour", pair_neighbours(relation)[which])):
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
    first, other = found
    assert "made.card.json" in first
    assert first.keys() == other.keys()
    assert [name for name in first if first[name] != other[name]] == []


def test_parsers_of_neighbouring_pairs_are_equal_files(tmp_path, monkeypatch):
    """A parser's folder holds the words of its pairs and is not private; of the same words and
    weights it says nothing more.
    """
    monkeypatch.setattr("trainables.tasks.parsing._fit", lambda *args, **kwargs: None)
    found = []
    for name, rows in (("corpus", pair_rows()), ("neighbour", pair_neighbours("replace_one")[0])):
        pairs = corpus_of(
            [Pair(row["utterance"], row["lispress"], dialogue="d") for row in rows],
            name="mine",
            public=False,
        )
        train_parser(pairs, settings=SMALL, seed=0).save(tmp_path / name)
        found.append(content(tmp_path / name))
    assert found[0] == found[1]
