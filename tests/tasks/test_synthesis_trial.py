import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.lines import read_lines, write_lines
from tests.refusals import refused
from tests.tasks._pairs import made_pairs, prepared, run_trial, tiny, write_pairs
from trainables.data.pair_split import couples, num_private_records, split_pairs
from trainables.data.pairs import open_pairs
from trainables.errors import TrialFailed
from trainables.figures import registry
from trainables.release_audit import audit_release

METHODS = {
    "one stage": {"engine": "sgd"},
    "two stages": {
        "synthesis.method": "two_stage",
        "synthesis.parse_epochs": 1,
        "synthesis.parses": "gold",
    },
    "domains": {"synthesis.method": "one_and_a_half_stage"},
    "function types": {
        "engine": "sgd",
        "synthesis.method": "one_and_a_half_stage",
        "synthesis.prompt": "function_types",
        "synthesis.parses": "gold",
    },
}


@pytest.fixture(autouse=True)
def _no_mauve(monkeypatch):
    """Its features need more texts than these trials make."""
    monkeypatch.setattr("trainables.metrics.text_space.figures", lambda *a, **k: {})


@pytest.fixture
def place(tmp_path):
    return write_pairs(tmp_path)


@pytest.mark.parametrize("name", METHODS)
def test_each_method_trains_draws_and_is_measured(place, name, tmp_path):
    reports = []
    config = tiny(place, **METHODS[name])
    result = run_trial(config, tmp_path, report=lambda r: not reports.append(r))
    assert [report.epochs_done for report in reports] == [1, 2]
    assert all("validation_loss" in report.metrics for report in reports)
    (file,) = (tmp_path / "trial").glob(
        "*.jsonl"
    )  # without coins no private record is written
    lines = read_lines(file)
    assert (file.name, len(lines)) == ("synthetic.jsonl", 12)
    assert all(set(line) == {"utterance"} for line in lines)
    metrics, mechanism = result.metrics, result.privacy.mechanism
    written = {*metrics, *(name for report in reports for name in report.metrics)}
    assert written - registry().keys() == set()
    for figure in (
        "word_type_overlap",
        "word_type_overlap_human_ceiling",
        "fluency_loss",
    ):
        assert math.isfinite(metrics[figure] or math.nan), figure
    private = config.engine == "dp_sgd"
    assert math.isfinite(metrics["epsilon"] or math.nan) == private
    assert ("parse_valid_rate" in metrics) == (name == "two stages")
    assert mechanism["num_records"] == 90  # three quarters of 120
    assert mechanism["stages"] == ([1, 1] if name == "two stages" else [])
    assert mechanism["histogram_noise_multiplier"] == (
        20.0 if name == "domains" else 0.0
    )
    assert getattr(result.privacy.step_audit, "verdict", None) == (
        "pass" if private else None
    )


@pytest.mark.slow  # two trials
def test_records_that_the_largest_number_of_tokens_cuts_are_counted(tmp_path):
    """For the curator alone: the share is that of private records, without noise."""
    rates = []
    for most in (16, 200):
        folder = tmp_path / str(most)
        folder.mkdir()
        changes = {**METHODS["two stages"], "synthesis.max_tokens": most}
        rates.append(
            run_trial(tiny(write_pairs(folder), **changes), folder).metrics["cut_rate"]
        )
    assert rates == [1.0, 0.0]
    assert not registry()["cut_rate"].is_public


def test_a_histogram_that_noise_drowned_fails_before_training(tmp_path, monkeypatch):
    """Its prompts cannot be drawn, and each epoch would be charged."""
    monkeypatch.setattr(
        "trainables.generation.histogram.add_noise",
        lambda counts, **_: dict.fromkeys(counts, 0.0),
    )
    reports = []
    config = tiny(write_pairs(tmp_path), **METHODS["domains"])
    with refused("the noise of the histogram exceeded all counts"):
        run_trial(config, tmp_path, report=lambda r: not reports.append(r))
    assert reports == []
    assert not (tmp_path / "trial" / "histogram.json").exists()


@pytest.mark.slow  # two parsers
def test_parsers_parse_private_utterances_and_measure_the_drawn_ones(tmp_path):
    changes = {
        "engine": "sgd",
        "synthesis.parses": "parser",
        "synthesis.measuring_parser_epochs": 1,
        "synthesis.num_generated": 8,
    }
    config = tiny(
        write_pairs(tmp_path, training=40), **{**METHODS["two stages"], **changes}
    )
    result = run_trial(config, tmp_path)
    assert result.metrics["well_formed_rate"] == 1.0
    assert result.metrics["function_type_overlap_human_ceiling"] is not None
    kept = sorted(
        path.name.split("-")[0] for path in (tmp_path / "cache").glob("[a-z]*-*")
    )
    assert kept == ["lm", "lm", "parser", "parser", "programs", "programs"]


def test_nothing_that_is_kept_for_release_holds_private_text(place, tmp_path):
    """A name of private records alone is in no metric, note, privacy fact or file of a
    model.
    """
    config = tiny(place, engine="sgd")
    corpus = open_pairs(config.data, data_dir=tmp_path)
    rows = made_pairs(120)
    for record in split_pairs(corpus, config.data, config.synthesis).private:
        rows[record]["utterance"] += " Zyxwvut"
    write_lines(place / "pairs_train.jsonl", rows)
    result = run_trial(config, tmp_path)
    kept = [file.read_text() for file in (tmp_path / "trial" / "model").glob("*.json")]
    shown = json.dumps(
        [result.metrics, result.privacy, result.notes, kept], default=str
    )
    assert kept
    assert "Zyxwvut" not in shown


def test_a_trial_resumes_where_it_was_stopped(place, tmp_path):
    config = tiny(
        place, **METHODS["two stages"], **{"engine": "sgd", "training.epochs": 3}
    )
    stopped = run_trial(config, tmp_path, report=lambda epoch: epoch.epochs_done < 1)
    assert stopped.stopped_early
    assert "nothing was generated" in " ".join(stopped.notes)
    assert stopped.metrics["steps"] == 5
    seen = []
    done = run_trial(
        config, tmp_path, report=lambda epoch: not seen.append(epoch.epochs_done)
    )
    assert seen == [1, 2, 3]  # the last epoch again, then what was left
    assert done.metrics["steps"] == 15
    assert (tmp_path / "trial" / "synthetic.jsonl").exists()


def test_what_is_released_has_seen_the_private_steps_of_both_stages(tmp_path):
    """Also where noise drowns the second stage, whose loss is best before its first
    step.
    """
    changes = {"privacy.noise_multiplier": 300.0, "training.epochs": 3}
    config = tiny(write_pairs(tmp_path), **METHODS["two stages"], **changes)
    found = run_trial(config, tmp_path).metrics
    assert found["best_epoch_parses"] == 1
    assert (found["best_epoch_utterances"] or 0) >= 2
    assert found["best_epoch"] == found["best_epoch_utterances"]
    losses = [
        found[f"validation_loss_{stage}"] or 0 for stage in ("parses", "utterances")
    ]
    assert found["validation_loss"] == pytest.approx(sum(losses))
    weights = load_file(tmp_path / "trial" / "model" / "weights.safetensors")
    public = {}
    for place in (tmp_path / "cache").glob("lm-*"):
        tensors = load_file(place / "weights.safetensors")
        public |= {f"{place.name}.{name}": tensor for name, tensor in tensors.items()}
    assert len(public) == len(weights)
    for name in (n for n in weights if n.endswith("word.weight")):
        own = weights[name]
        assert not any(own.equal(t) for t in public.values() if t.shape == own.shape), (
            name
        )


def test_the_histogram_is_released_once(place, tmp_path):
    config = tiny(place, **METHODS["domains"])
    kept = tmp_path / "trial" / "histogram.json"
    prepared(config, tmp_path, folder=kept.parent)
    (kept.parent / "checkpoint").mkdir()
    first = kept.read_text()
    prepared(config, tmp_path, folder=kept.parent)
    assert kept.read_text() == first
    assert json.loads(first) != {"calendar": 60.0, "weather": 30.0}  # the exact ones
    kept.unlink()
    with refused(r"expected histogram\.json beside the checkpoint", TrialFailed):
        prepared(config, tmp_path, folder=kept.parent)


def test_histograms_from_elsewhere(place, tmp_path):
    for where in ("public", "true"):
        config = tiny(place, **METHODS["domains"], **{"synthesis.histogram": where})
        setup = prepared(config, tmp_path, folder=tmp_path / where)
        assert sum(setup.frequencies.values()) == {"public": 30, "true": 90}[where]
        assert bool(setup.mechanism.unaccounted) == (where == "true")


def test_shuffled_pairs_exchange_programs_within_couples(place, tmp_path):
    changes = {"synthesis.shuffle_pairs": True}
    setup = prepared(tiny(place, **METHODS["two stages"], **changes), tmp_path)
    assert (setup.mechanism.num_records, setup.mechanism.expected_batch_size) == (
        45,
        10,
    )
    draw = setup.engine.parts["utterances"]._sampler.draw(0, 0)
    assert (
        draw.sizes == 2
    ).all()  # both pairs that a record is in are drawn and clipped as one
    left, right = couples(np.arange(7), seed=0)
    assert len(left) == len(right) == 3
    assert len({*left.tolist(), *right.tolist()}) == 6


def test_noise_streams_of_the_stages_differ(place, tmp_path):
    changes = {"privacy.noise_multiplier": 1e6, "privacy.reproducible_noise": True}
    setup = prepared(tiny(place, **METHODS["two stages"], **changes), tmp_path)
    released = []
    for engine in setup.engine.parts.values():
        engine.step(0, 0)  # noise alone, to speak of
        released.append(engine.released.clone())
    correlation = torch.corrcoef(torch.stack(released))[0, 1]
    assert abs(float(correlation)) < 4 / math.sqrt(released[0].numel())


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"synthesis.remove_function": "Nothing*"},
            r"expected synthesis\.remove_function to name a function that occurs"
            r" .*'Nothing\*'",
        ),
        (
            {"training.expected_batch_size": 500},
            r"at most the number of training records \(90\), got 500",
        ),
        (
            {"model": {"name": "causal_lm", "encoder": "/nowhere"}},
            "expected model.encoder to be scratch, a folder or a hub name that .*, got"
            " '/nowhere'",
        ),
    ],
)
def test_what_does_not_fit_the_data_or_is_not_there(changes, match, place, tmp_path):
    with refused(match):
        run_trial(tiny(place, **changes), tmp_path)


def test_an_empty_private_set(tmp_path):
    place = write_pairs(tmp_path, training=5)
    config = tiny(place, **{"synthesis.public_fraction": 0.99})
    with refused("expected at least one private record of smcalflow"):
        run_trial(config, tmp_path)
    (place / "pairs_train.jsonl").write_text("")
    with refused(r"expected .* in .*, got an empty file"):
        run_trial(config, tmp_path)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"engine": "edp_sgd"}, "expected engine dp_sgd or sgd with task=synthesis"),
        (
            {"synthesis.method": "two_stage"},
            "expected synthesis.parse_epochs, got none",
        ),
        (
            {"synthesis.method": "three_stage"},
            "expected synthesis.method to be one of one_and_",
        ),
        (
            {"data.split": "paired"},
            r"split bernoulli \(random membership\) with task=synthesis",
        ),
        (
            {"evaluation": {"bootstrap_samples": 7}},
            "fields of evaluation only with task=nlu",
        ),
        (
            {"privacy.noise_decay": {"kind": "linear", "tau": 0.1}},
            "expected privacy.noise_decay.kind none with task=synthesis",
        ),
    ],
)
def test_configs_that_are_none(changes, match, tmp_path):
    with refused(match):
        tiny(tmp_path, **changes)


def test_the_split_is_disjoint_and_removes_what_is_named(tmp_path):
    config = tiny(write_pairs(tmp_path), **{"synthesis.remove_function": "Weather*"})
    corpus = open_pairs(config.data, data_dir=tmp_path)
    split = split_pairs(corpus, config.data, config.synthesis)
    parts = [split.private, split.public, split.validation, split.test, split.reference]
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    assert not any("WeatherQueryApi" in corpus.programs[i] for i in split.public)
    assert any("WeatherQueryApi" in corpus.programs[i] for i in split.private)
    few = tiny(write_pairs(tmp_path), **{"synthesis.only_function": "CreateEvent"})
    kept = split_pairs(corpus, few.data, few.synthesis).private
    assert all("CreateEvent" in corpus.programs[i] for i in kept)


def test_a_count_of_private_records_is_reported(place, tmp_path):
    config = tiny(place, **{"data.name": "pair_lines"})
    corpus = open_pairs(config.data, data_dir=tmp_path)
    number, reasons = num_private_records(corpus, config.data, config.synthesis)
    assert number == 90
    assert "counted on the private records" in reasons[0]
    declared = tiny(place, **{"data.name": "pair_lines", "data.num_records": 100})
    assert num_private_records(corpus, declared.data, declared.synthesis) == (100, ())


def test_coins_of_a_trial_make_its_release_auditable(tmp_path):
    place = write_pairs(tmp_path)
    rows = [
        {**row, "utterance": f"{row['utterance']} number {number}"}
        for number, row in enumerate(made_pairs(120))
    ]
    write_lines(place / "pairs_train.jsonl", rows)
    config = tiny(place, **{"data.split": "bernoulli"})
    result = run_trial(config, tmp_path)
    assert (
        result.privacy.mechanism["num_records"] == 45
    )  # half the 90, whatever the coins say
    sides = []
    for name in ("synthetic", "members", "held_out"):
        file = tmp_path / "trial" / f"{name}.jsonl"
        assert file.stat().st_mode & 0o777 == 0o600
        sides.append([line["utterance"] for line in read_lines(file)])
    corpus = open_pairs(config.data, data_dir=tmp_path)
    everybody = split_pairs(corpus, config.data, config.synthesis).private
    assert sorted(sides[1] + sides[2]) == sorted(
        corpus.utterances[i] for i in everybody
    )
    # 90 fair coins: outside 45 +- 24 with a chance below 1e-6.
    assert 21 <= len(sides[1]) <= 69
    assert audit_release(*sides, delta=1e-5).epsilon_lower_bound >= 0
    other = tiny(place, **{"data.split": "bernoulli", "training.seed": 1})
    drawn = [
        prepared(c, tmp_path, folder=tmp_path / "b").split for c in (config, other)
    ]
    assert set(drawn[0].private) != set(drawn[1].private), "coins are a trial's own"
    assert [corpus.utterances[i] for i in drawn[0].private] == sides[1]
