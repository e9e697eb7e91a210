import json
from pathlib import Path

import pytest
import torch
import yaml

from search_spaces import space as spaces
from sweep.planning.accounting import size_of
from sweep.planning.prepare import prepare_space
from sweep.runtime import runner
from sweep.spending.ledger import FILE, Ledger
from sweep.store.sweeps import open_sweep
from sweep.synthesis.data_card import Filters
from sweep.synthesis.synthesize import write_utterances
from sweep.synthesis.trained_text import open_trained
from tests.fixed_keys import fixed_keys
from tests.libraries import IGNORED
from tests.lines import read_lines, write_lines
from tests.refusals import refused
from tests.sweep.sweeps import settings_in
from tests.tasks._pairs import run_trial, tiny, write_pairs
from trainables import figures
from trainables.errors import InvalidData

pytestmark = IGNORED
TWO_STAGES = {
    "synthesis.method": "two_stage",
    "synthesis.parse_epochs": 1,
    "synthesis.parses": "gold",
}


@pytest.fixture(autouse=True)
def _repeatable():
    """Trials have fixed keys, and models that a test makes have fixed weights."""
    torch.manual_seed(0)
    with fixed_keys():
        yield


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SWEEP_DATA_DIR", str(tmp_path))
    monkeypatch.setattr("trainables.metrics.text_space.figures", lambda *a, **k: {})
    return settings_in(tmp_path)


def drawn(folder, to, *, number=2, **filters):
    """The card of utterances from a trial that a test has run."""
    kept = Filters(**{"patterns": {}, "min_words": 0, **filters})
    return write_utterances(
        open_trained(folder / "trial"), to=to, number=number, filters=kept
    )


def space_of(folder, **changes):
    fields = tiny(write_pairs(folder), **changes).model_dump(mode="json")
    return spaces.parse(
        {"name": "texts", "base": fields, "resources": {"executor": "local"}}
    )


def test_a_sweep_trains_pays_tracks_and_its_export_speaks(settings, tmp_path, line):
    prepared = prepare_space(space_of(tmp_path, **TWO_STAGES), settings=settings)
    [planned] = prepared.plan.to_run
    assert (planned.steps, planned.num_records) == (10, 90)
    assert runner.start(prepared, settings).tracking_problem is None
    folder = open_sweep(settings.home, "texts")
    [record] = folder.records()
    assert record.status == "done", record
    assert record.metrics["word_type_overlap"] is not None
    entries = Ledger(settings.home / FILE).entries()
    assert max(entry.epochs for entry in entries) == 2
    last = max(entries, key=lambda entry: entry.epochs)
    (steps,) = last.release.steps
    assert (steps.sigma, steps.count) == (1.0, 10)  # of both stages, at one noise
    card = json.loads(
        (folder.trial_folder(record.plan.id) / "privacy_card.json").read_text()
    )
    assert card["epsilon"] == pytest.approx(record.metrics["epsilon"])
    assert card["mechanism"]["stages"] == [1, 1]
    import mlflow

    client = mlflow.MlflowClient(settings.tracking_uri)
    [experiment] = [e for e in client.search_experiments() if e.name != "Default"]
    runs = client.search_runs([experiment.experiment_id])
    assert any("word_type_overlap" in run.data.metrics for run in runs)
    shown_table = line.says("show", "texts")
    assert "human: one half against the other" in " ".join(shown_table.split())
    compared = line.says("compare", "texts", f"texts:{record.plan.id}")
    assert figures.label("word_type_overlap") in " ".join(compared.split())
    assert "SER" not in compared
    # Export the best by what it measured, and draw from the export.
    line.says("export", "texts", "--any-epsilon", "--to", tmp_path / "exported")
    about = json.loads((tmp_path / "exported" / "about.json").read_text())
    assert about["chosen_by"] == "word_type_overlap"  # MAUVE is left out here
    assert about["predict"] == "sweep synthesize . --to utterances.jsonl"
    out = tmp_path / "made.jsonl"
    arguments = ("synthesize", tmp_path / "exported", "--to", out)
    shown = line.facts(*arguments, "--number", 9, "--min-words", 0)["card"]
    assert shown["epsilon"] == pytest.approx(card["epsilon"], rel=1e-6)
    assert shown["steps"] == 10
    rows = read_lines(out)
    assert len(rows) == 9
    assert all(set(row) == {"utterance"} for row in rows)
    page = out.with_suffix(".card.md").read_text()
    assert "-differentially private" in page
    assert "weights of the model of parses" in page
    assert any("validation records" in line for line in shown["not_covered"])
    assert "the validation records: which epoch's weights are kept" in page
    # Refused in one line: a file that exists, a folder without a model.
    assert "which exists" in line.refused(*arguments)
    said = line.refused("synthesize", tmp_path, "--to", tmp_path / "other.jsonl")
    assert "expected a trained synthesis model" in said


def pretrained_in(folder):
    """A GPT-2 with a tokenizer, of hardly any size."""
    from tests.models.test_lm_folder import base_in

    base_in(folder, gpt2=True)
    return folder


def lacking(name):
    """A pretrained model whose folder lacks a file."""

    def change(folder):
        place = pretrained_in(folder / "lm")
        (place / name).unlink()
        return {"model.encoder": str(place)}

    return change


NOT_READY = {
    "no model": (
        {"model.encoder": "/nowhere"},
        "without code of its own, got '/nowhere'",
    ),
    "no tokenizer": (
        lacking("tokenizer.json"),
        "expected a tokenizer beside the model",
    ),
    "no weights": (lacking("model.safetensors"), "expected weights in model.encoder"),
    "no sizes": (lacking("config.json"), "expected "),
    "short": (
        lambda folder: {
            "model.encoder": str(pretrained_in(folder / "lm")),
            "synthesis.max_tokens": 65,
        },
        "expected synthesis.max_tokens <= 64, got 65",
    ),
    "rank": (
        lambda folder: {
            "model.encoder": str(pretrained_in(folder / "lm")),
            "synthesis.lora_rank": 17,
        },
        "expected 1 <= synthesis.lora_rank <= 16, got 17",
    ),
    "heads": ({"model.num_heads": 3}, "to be a multiple of model.num_heads=3, got 16"),
    "rank from scratch": (
        {"synthesis.lora_rank": 17},
        "synthesis.lora_rank <= 16, got 17",
    ),
    "programs": (
        {**TWO_STAGES, "synthesis.parses": "parser"},
        "expected programs of the public records",
    ),
    "gold": (TWO_STAGES, "expected programs of the public records"),
    "human": (
        {"synthesis.num_generated": 49},
        "at most the number (48) of human texts",
    ),
}


@pytest.mark.parametrize("name", NOT_READY)
def test_a_setup_that_cannot_run_is_refused_before_it_costs_anything(
    name, settings, tmp_path, line
):
    changes, match = NOT_READY[name]
    changes = changes(tmp_path) if callable(changes) else changes
    config = tiny(write_pairs(tmp_path), **changes)
    if match.startswith("expected programs"):
        for file in (tmp_path / "pairs").iterdir():
            rows = read_lines(file)
            write_lines(file, [{"utterance": row["utterance"]} for row in rows])
    trial = tmp_path / "trial.yaml"
    trial.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    code, _, err = line("run", trial, "--name", "texts")
    *_, said = err.splitlines()
    assert (code, said[:7]) == (2, "error: "), err
    assert match in said
    assert not (settings.home / FILE).exists()


def test_the_epochs_of_the_paper():
    """Mireshghallah et al. 2022: 7 epochs of one stage, 10 at epsilon 16, 6 without
    noise.
    """
    from search_spaces.expansion import expand

    found = {}
    for point in expand(spaces.read("synthesis_epsilon")).points:
        noise = point.config.privacy.noise_multiplier
        target = (
            getattr(noise, "target_epsilon", None)
            if point.config.engine != "sgd"
            else None
        )
        stages = (point.config.synthesis.parse_epochs, point.config.training.epochs)
        found[point.config.synthesis.method, target] = stages
    assert found == {
        ("one_stage", None): (None, 6),
        ("one_stage", 3): (None, 7),
        ("one_stage", 8): (None, 7),
        ("one_stage", 16): (None, 10),
        ("two_stage", None): (5, 10),
        ("two_stage", 3): (2, 10),
        ("two_stage", 8): (2, 10),
        ("two_stage", 16): (2, 10),
    }


def test_the_card_of_shuffled_pairs_says_what_holds_for_a_record(tmp_path):
    changes = {**TWO_STAGES, "synthesis.shuffle_pairs": True}
    run_trial(tiny(write_pairs(tmp_path), **changes), tmp_path)
    to = tmp_path / "made.jsonl"
    card = drawn(tmp_path, to)
    assert card.epsilon < card.epsilon_replace_one < float("inf")
    assert any("would couple other records anew" in line for line in card.not_covered)
    assert (
        "epsilon for one record replaced by another"
        in to.with_suffix(".card.md").read_text()
    )


def test_filters_look_at_the_text_alone(tmp_path):
    from sweep.synthesis.synthesize import KNOWN_PATTERNS

    filters = Filters(
        min_words=2, max_words=5, patterns=KNOWN_PATTERNS, drop_repeats=True
    )
    for text, reason in {
        "hello": "length",
        "one two three four five six": "length",
        "write to ann@example.org now": "email",
        "see www.example.org now": "url",
        "call 555 123-4567 now": "digits",
        "meet at 4 30 pm": None,
        "seen before": "repeated",
    }.items():
        assert filters.reason(text, {"seen before"}) == reason, text
    with refused("expected 0 <= min-words <= max-words, got 3 and 2"):
        Filters(min_words=3, max_words=2, patterns={})
    with refused("expected a regular expression"):
        Filters(patterns={"mine": "("})


def test_filters_that_drop_everything_are_reported(tmp_path):
    run_trial(tiny(write_pairs(tmp_path), engine="sgd"), tmp_path)
    with refused("expected filters that let 2 utterances pass, got 0"):
        drawn(tmp_path, tmp_path / "none.jsonl", patterns={"everything": ".*"})
    assert not (tmp_path / "none.jsonl").exists()


def test_utterances_and_cards_go_to_new_files(tmp_path):
    run_trial(tiny(write_pairs(tmp_path), engine="sgd"), tmp_path)
    to = tmp_path / "made.jsonl"
    for taken in (to, tmp_path / "made.card.json", tmp_path / "made.card.md"):
        taken.write_text("of somebody else")
        with refused(f"expected a new file, got {taken}, which exists"):
            drawn(tmp_path, to)
        assert taken.read_text() == "of somebody else"
        taken.unlink()
    with refused(r"expected a new file, got \., which exists"):
        drawn(tmp_path, Path())
    with refused(r"expected a folder to write to, got .*/none"):
        drawn(tmp_path, tmp_path / "none" / "x")


def test_no_drawn_text_has_a_nul(tmp_path):
    """A model of bytes may draw one; `sweep score` and the data sets refuse a file with
    it.
    """
    changes = {
        "synthesis.temperature": 1e6,
        "synthesis.top_k": 1_000,
        "synthesis.num_beams": 1,
    }
    run_trial(tiny(write_pairs(tmp_path), engine="sgd", **changes), tmp_path)
    to = tmp_path / "made.jsonl"
    drawn(tmp_path, to, number=100)
    for file in (to, tmp_path / "trial" / "synthetic.jsonl"):
        lines = file.read_text().splitlines()
        assert not any("\0" in json.loads(line)["utterance"] for line in lines)


def test_a_declared_number_far_from_that_of_the_private_pairs_is_refused(
    settings, tmp_path
):
    """90 pairs train; the number itself is for the curator alone."""
    for declared in (40, 45, 180, 9_000):
        fields = {"data.name": "pair_lines", "data.num_records": declared}
        config = tiny(write_pairs(tmp_path), **fields)
        if declared in (45, 180):
            assert size_of(config, settings).num_records == declared
            continue
        with refused(r"data\.num_records within a factor of 2", InvalidData) as refusal:
            size_of(config, settings)
        assert "90" not in str(refusal.value).replace(str(declared), "")


def test_sweep_epsilon_counts_stages_and_histogram(settings, tmp_path, line):
    file = tmp_path / "trial.yaml"
    changes = {"synthesis.method": "one_and_a_half_stage", "training.epochs": 1}
    found = []
    for std in (1.0, 100.0):
        config = tiny(
            write_pairs(tmp_path),
            **changes,
            **{"synthesis.histogram_noise_multiplier": std},
        )
        file.write_text(yaml.safe_dump(config.model_dump(mode="json")))
        found.append(line.facts("epsilon", file)["epsilon"])
    assert found[0] > found[1] + 1
