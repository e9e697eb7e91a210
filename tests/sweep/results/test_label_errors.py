"""Errors by label: equal to the trial's own figures, and text only where it may be."""

import json
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import space as spaces
from sweep.planning.prepare import prepare_space
from sweep.results import error_analysis
from sweep.results.comparison import side
from sweep.results.label_errors import confusions, label_scores, lost
from sweep.runtime import runner
from tests.lines import write_lines
from tests.sweep.line import Line
from tests.sweep.neighbours import corpus, nlu_base
from tests.sweep.sweeps import settings_in, shared_figures
from tests.sweep.untracked import without_mlflow
from trainables.data.records import Frame

_LABELS = st.sampled_from(["call", "text", "other"])
_SLOTS = st.sets(st.sampled_from([0, 1, 2]), max_size=3).flatmap(
    lambda starts: st.tuples(
        *(st.tuples(_LABELS, st.just(n), st.just(n + 1)) for n in sorted(starts))
    )
)
_FRAMES = st.builds(Frame, intent=_LABELS, slots=_SLOTS)
_PAIRS = st.lists(st.tuples(_FRAMES, _FRAMES), min_size=1, max_size=8)


@given(_PAIRS)
def test_confusions_and_scores_count_the_same_errors(pairs):
    reference, predicted = map(list, zip(*pairs, strict=True))
    confused = confusions(reference, predicted)
    wrong = sum(a.intent != b.intent for a, b in pairs)
    assert sum(c.count for c in confused if c.kind == "intent") == wrong
    for score in label_scores(reference, predicted):
        missed = sum(
            c.count
            for c in confused
            if c.kind == score.kind and c.reference == score.label
        )
        assert round(score.places * (1 - score.recall)) == missed


@given(_PAIRS)
def test_a_right_model_loses_nothing_and_confuses_nothing(pairs):
    reference, baseline = map(list, zip(*pairs, strict=True))
    assert confusions(reference, reference) == []
    assert {score.f1 for score in label_scores(reference, reference)} <= {1.0}
    assert lost(reference, baseline, reference) == []
    assert lost(reference, reference, baseline) == [
        n for n, (a, b) in enumerate(pairs) if a != b
    ]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("errors") / "a"
    folder.mkdir()
    write_lines(folder / "mine.jsonl", corpus())
    schema = {"intents": ["call", "text"], "slots": ["contact"]}
    (folder / "schema.json").write_text(json.dumps(schema))
    base = nlu_base("record", "edp_sgd")
    base["training"] |= {"epochs": 30, "learning_rate": 2.0}
    base["evaluation"] = {"attacks": [], "bootstrap_samples": 0}
    variants = [
        {
            "name": "sgd",
            "baseline": True,
            "set": {"engine": "sgd", "training.optimizer": "adam"}
            | {"training.learning_rate": 0.02},
        },
        {"name": "edp", "set": {"privacy.noise_multiplier": 5.0}},
    ]
    document = {"name": "pair", "base": base, "variants": variants}
    settings = settings_in(folder)
    with shared_figures(settings), without_mlflow():
        prepared = prepare_space(
            spaces.parse(document | {"resources": {"executor": "local"}}),
            settings=settings,
        )
        return runner.start(prepared, settings, command=["test"]).folder


@pytest.fixture
def settings(sweep, monkeypatch):
    found = settings_in(sweep.path.parent.parent)
    monkeypatch.setenv("SWEEP_HOME", str(found.home))
    monkeypatch.setenv("SWEEP_DATA_DIR", str(found.data_dir))
    return found


def _private(sweep):
    [record] = [r for r in sweep.records() if not r.plan.baseline]
    return record


def test_the_counts_are_those_of_the_trial_s_own_figures(sweep, settings):
    record = _private(sweep)
    named = f"{sweep.name}:{record.plan.id}"
    found = error_analysis.analyse(side(settings.home, named), settings)
    assert found.baseline is not None
    wrong = sum(c.count for c in found.confusions if c.kind == "intent")
    assert wrong / found.num_records == pytest.approx(record.metrics["icer"])
    [contact] = [s for s in found.scores if s.kind == "slot"]
    assert contact.f1 == pytest.approx(record.metrics["slot_f1"])


def test_text_is_in_the_private_file_and_in_no_pipe(sweep, settings, tmp_path, capsys):
    line = Line(capsys)
    named = f"{sweep.name}:{_private(sweep).plan.id}"
    file = tmp_path / "lost.jsonl"
    said = line.says("errors", named, "--to", file)
    facts = line.document("errors", named)
    texts = [" ".join(row["tokens"]) for row in corpus() if row["part"] == "test"]
    assert not any(text in said or text in str(facts) for text in texts)
    rows = [json.loads(each) for each in file.read_text().splitlines()]
    assert len(rows) == facts["num_lost"] > 0
    assert {row["text"] for row in rows} <= {*texts}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "--to" in line.refused("errors", named, "--to", file)


def test_a_trial_of_no_labels_or_with_changed_files_is_refused(
    sweep, settings, capsys, tmp_path
):
    line = Line(capsys)
    assert "sweep" in line.refused("errors", "absent")
    weights = sweep.trial_folder(_private(sweep).plan.id) / "model/weights.safetensors"
    before = weights.read_bytes()
    weights.write_bytes(before[:-1] + b"x")
    try:
        said = line.refused("errors", f"{sweep.name}:{_private(sweep).plan.id}")
        assert "weights" in said
    finally:
        weights.write_bytes(before)
