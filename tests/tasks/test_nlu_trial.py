"""A trial from config to result on a small user corpus: its contract with a sweep."""

import dataclasses
import itertools
import json
import math
import time

import pytest

from tests.fixed_keys import fixed_keys
from tests.lines import read_lines, write_lines
from tests.refusals import refused
from tests.trials import run_alone
from trainables.attacks import _panel
from trainables.config.trial import parse
from trainables.figures import registry
from trainables.system.communication import Alone
from trainables.tasks._setup import TrialSetup

SCHEMA = {
    "intents": ["call", "play"],
    "slots": ["contact", "song"],
    "source": "written by hand",
}
CONTACTS = ("ann", "bob", "cyd", "dee", "eli", "fay", "gus", "hal", "ida", "joe")
BERT = {
    **{"name": "bert", "word_buckets": 64, "hidden_size": 12, "num_heads": 2},
    **{"num_layers": 1, "intermediate_size": 16},
}
SONGS = (
    "hurt",
    "jolene",
    "imagine",
    "creep",
    "halo",
    "toxic",
    "africa",
    "vogue",
    "one",
    "zombie",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A data directory with 120 utterances of two intents, and their public schema."""
    folder = tmp_path_factory.mktemp("data")
    records = []
    for intent, slot, verbs, names in (
        ("call", "contact", ("call", "ring", "dial"), CONTACTS),
        ("play", "song", ("play", "start", "queue"), SONGS),
    ):
        for polite, verb, name in itertools.product(("", "please"), verbs, names):
            tokens = [*polite.split(), verb, name]
            tags = ["O"] * (len(tokens) - 1) + [f"B-{slot}"]
            records.append({"tokens": tokens, "tags": tags, "intent": intent})
    write_lines(folder / "utterances.jsonl", records)
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    return folder


def config(engine="edp_sgd", **fields):
    small = {"word_buckets": 64, "word_dim": 8, "char_dim": 4, "char_filters": 6}
    training = {
        "epochs": 3,
        "expected_batch_size": 16,
        "num_workers": 2,
        "learning_rate": 0.02,
    }
    return parse(
        {
            "engine": engine,
            "data": {
                "name": "json_lines",
                "schema_file": "schema.json",
                "num_records": 54,
            }
            | fields.pop("data", {}),
            "model": fields.pop("model", small | {"hidden_size": 12, "num_layers": 1}),
            "training": training | fields.pop("training", {}),
            "privacy": {"reproducible_noise": True} | fields.pop("privacy", {}),
            "evaluation": {"attacks": ["loss_threshold"], "bootstrap_samples": 50},
        }
    )


def run(place, folder, chosen, *, stop_after=None, comm=None):
    reports = []

    def report(epoch):
        reports.append(epoch)
        return epoch.epochs_done != stop_after

    return run_alone(chosen, folder, data=place, report=report, comm=comm), reports


def figures(result):
    return {k: v for k, v in result.metrics.items() if not k.startswith("seconds")}


@pytest.fixture(scope="module")
def done(place):
    """Finished trials, by engine, in folders of that name; "fresh": with noise that
    counts.
    """
    chosen = {engine: config(engine) for engine in ("sgd", "edp_sgd", "dp_sgd")}
    chosen["fresh"] = config(privacy={"reproducible_noise": False})
    with fixed_keys():
        return {name: run(place, place / name, each) for name, each in chosen.items()}


@pytest.mark.parametrize("engine", ["sgd", "edp_sgd", "dp_sgd"])
def test_a_trial_reports_each_epoch_once_and_measures_the_test_part(done, engine):
    result, reports = done[engine]
    assert [epoch.epochs_done for epoch in reports] == [1, 2, 3]
    assert result.epochs_done == 3
    assert not result.stopped_early
    assert result.metrics["num_utterances"] == 60  # half of 120
    assert 0 <= result.metrics["mia_loss_threshold_auc"] <= 1
    assert result.metrics["best_epoch"] in (1, 2, 3)


def test_sgd_learns_the_toy_language(place, tmp_path):
    result, _ = run(place, tmp_path, config("sgd", training={"epochs": 12}))
    assert result.metrics["intent_accuracy"] > 0.95
    assert result.metrics["ser"] < 0.2


def test_fresh_noise_gives_other_bits_and_a_finite_epsilon(place, tmp_path):
    private = config(privacy={"reproducible_noise": False})
    first, first_reports = run(place, tmp_path / "a", private)
    _, second_reports = run(place, tmp_path / "b", private)
    assert first_reports[-1].metrics != second_reports[-1].metrics
    assert 0 < first.metrics["epsilon"] < math.inf


def test_a_resumed_trial_ends_as_if_it_had_never_stopped(place, tmp_path, done):
    """Reproducible noise gives the same bits, and no guarantee."""
    whole, _ = done["edp_sgd"]
    assert whole.metrics["epsilon"] == math.inf
    stopped, _ = run(place, tmp_path / "cut", config(), stop_after=1)
    assert stopped.stopped_early
    assert stopped.epochs_done == 1
    resumed, reports = run(place, tmp_path / "cut", config())
    # The epoch of the checkpoint is reported again: permission for the next one is
    # asked anew.
    assert [epoch.epochs_done for epoch in reports] == [1, 2, 3]
    assert figures(resumed) == figures(whole)


def test_the_seconds_of_a_trial_are_those_of_all_its_attempts(place, tmp_path):
    _, first = run(place, tmp_path, config())
    again, reports = run(
        place, tmp_path, config()
    )  # every epoch is an earlier attempt's
    assert [epoch.epochs_done for epoch in reports] == [3]
    assert again.seconds["train"] == pytest.approx(
        sum(epoch.seconds for epoch in first)
    )
    assert again.seconds["total"] == pytest.approx(sum(parts_of(again)))


def test_the_seconds_of_the_parts_of_a_trial_are_those_of_the_whole(
    place, tmp_path, monkeypatch
):
    for owner, name in ((_panel, "panel"), (TrialSetup, "validate")):
        right = getattr(owner, name)

        def slow(*args, right=right, **named):
            time.sleep(0.4)
            return right(*args, **named)

        monkeypatch.setattr(owner, name, slow)
    begun = time.perf_counter()
    result, _ = run(place, tmp_path, config())
    whole = time.perf_counter() - begun
    assert result.seconds["attacks"] >= 0.4
    assert result.seconds["between_epochs"] >= 3 * 0.4
    assert sum(parts_of(result)) == pytest.approx(result.seconds["total"])
    assert result.seconds["total"] + result.seconds["shadow"] <= whole


def parts_of(result):
    """Seconds of the disjoint parts of a trial."""
    names = ("prepare", "train", "between_epochs", "evaluate", "attacks")
    return [result.seconds[name] for name in names]


def test_a_refused_epoch_is_not_trained_and_not_charged(place, tmp_path, done):
    private = config(privacy={"reproducible_noise": False})
    stopped, reports = run(place, tmp_path, private, stop_after=2)
    whole, _ = done["fresh"]
    assert (len(reports), stopped.privacy.mechanism["epochs"]) == (2, 2)
    assert stopped.metrics["epsilon"] < whole.metrics["epsilon"]


def test_no_text_of_a_record_leaves_the_trial(place, done):
    result, reports = done["edp_sgd"]
    parts = (dataclasses.replace(result, privacy=None), *reports)
    plain = [dataclasses.asdict(each) for each in parts]
    reported = json.dumps(plain) + result.privacy.model_dump_json()
    kept = " ".join(f.read_text() for f in (place / "edp_sgd").rglob("*.json"))
    for word in (*CONTACTS, "jolene", "imagine", "please"):
        assert f'"{word}"' not in reported
        assert f'"{word}"' not in kept


@pytest.mark.parametrize(
    ("source", "normalise"),
    [
        ("public", {}),
        ("public", {"normalise": "none"}),
        ("first_step_noised", {"normalise": "none", "cap": 2}),
        ("first_step", {}),
    ],
)
def test_every_source_of_alpha_trains_and_only_a_raw_or_unbounded_one_voids_the_guarantee(
    place, tmp_path, source, normalise
):
    """With noise after the rescale the step is audited where its claim has a bound."""
    scale = {"name": source, **normalise}
    scaled = config(privacy={"reproducible_noise": False, "group_scale": scale})
    result, _ = run(place, tmp_path, scaled)
    unbounded = normalise == {"normalise": "none"}
    assert (result.metrics["epsilon"] == math.inf) == (
        source == "first_step" or unbounded
    )
    audit = result.privacy.step_audit
    assert audit is None if unbounded else audit.verdict == "pass"


def test_a_trial_carries_the_audit_of_its_own_step(done):
    audit = done["fresh"][0].privacy.step_audit
    assert audit.verdict == "pass"
    assert audit.low < audit.claimed * 1.2
    assert done["sgd"][0].privacy.step_audit is None


def test_labels_read_from_private_records_void_the_guarantee(place, tmp_path):
    undeclared = config(
        data={"schema_file": None, "num_records": None},
        privacy={"reproducible_noise": False},
    )
    result, _ = run(place, tmp_path, undeclared)
    assert result.metrics["epsilon"] == math.inf
    assert len(result.privacy.mechanism["undeclared"]) == 2


def test_a_group_is_one_unit_of_privacy(place, tmp_path):
    records = enumerate(read_lines(place / "utterances.jsonl"))
    owned = [{**record, "group": f"user{i // 4}"} for i, record in records]
    write_lines(place / "owned.jsonl", owned)
    private = {"unit": "group", "max_records_per_group": 2, "reproducible_noise": False}
    with refused("number of groups"):  # counted by their owner
        config(data={"num_records": None}, privacy={"unit": "group"})
    grouped = config(
        "dp_sgd",
        data={"path": "owned.jsonl", "num_records": 27, "split": "bernoulli"},
        privacy={**private, "sampling": "poisson"},
        training={"expected_batch_size": 8, "num_workers": 1},
    )
    audited = grouped.evaluation.model_copy(
        update={"attacks": ("loss_threshold", "one_run")}
    )
    grouped = grouped.model_copy(update={"evaluation": audited})
    result, reports = run(place, tmp_path, grouped)
    assert result.privacy.mechanism["unit"] == "group"
    assert (
        "epsilon_lower_bound" not in result.metrics
    )  # a coin is a record's, not a group's
    assert "attack one_run: not possible on this split or unit" in result.notes
    assert len(reports) == 3
    assert math.isfinite(result.metrics["epsilon"])


def test_more_processes_than_workers_are_refused(place, tmp_path):
    class Pair(Alone):
        world_size = 3

    with refused("num_workers"):
        run(place, tmp_path, config(), comm=Pair())


def test_every_figure_that_a_trial_writes_is_registered(done):
    result, reports = done["edp_sgd"]
    written = {
        *result.metrics,
        *(name for report in reports for name in report.metrics),
    }
    assert written - registry().keys() == set()
