"""Trials whose guarantee covers every record: what they show of validation and test
records is a noised sum, to which one record adds little, and nothing else.
"""

import hashlib
import json
from collections import Counter

import numpy as np
import pytest

from tests.fixed_keys import fixed_keys
from tests.lines import write_lines
from tests.sweep.sweeps import medium_grids
from tests.trials import run_alone
from trainables import figures, saved_predictions
from trainables.config.trial import TrialConfig, parse
from trainables.data.corpus import open_corpus
from trainables.data.split import held_out_sizes, make_split
from trainables.dp.held_out import rounded_gaussian
from trainables.dp.noise import SecretKey
from trainables.models.nlu.clc import Clc
from trainables.system.communication import Alone
from trainables.tasks import _held_out, _leakage
from trainables.tasks._setup import prepare

VERBS = {"call": ("call", "ring", "dial"), "play": ("play", "start", "queue")}
SLOTS = {"call": "contact", "play": "song"}
N = 70  # declared to train


def record(intent, verb, name, **fields):
    tokens = [verb, name]
    tags = ["O", f"B-{SLOTS[intent]}"]
    return {"tokens": tokens, "tags": tags, "intent": intent, **fields}


RECORDS = [
    record(intent, verb, f"name{number}", group=f"user {number % 13}")
    for intent, verbs in VERBS.items()
    for verb in verbs
    for number in range(20)
]


def alone(records):
    """The records without groups."""
    return [
        {name: value for name, value in each.items() if name != "group"}
        for each in records
    ]


def config(**fields):
    small = {"word_buckets": 64, "word_dim": 8, "char_dim": 4, "char_filters": 6}
    privacy = {"covers": "all", "noise_multiplier": 2.0, "delta": 1e-4}
    training = {"epochs": 3, "expected_batch_size": 16, "learning_rate": 0.05}
    return parse(
        {
            "engine": "dp_sgd",
            "data": {
                "name": "json_lines",
                "path": "utterances.jsonl",
                "schema_file": "schema.json",
                "split": "hash",
                "num_records": N,
            },
            "model": small | {"hidden_size": 12, "num_layers": 1},
            "training": training | fields.pop("training", {}),
            "privacy": privacy | fields.pop("privacy", {}),
            "evaluation": {"attacks": ["loss_threshold"], "bootstrap_samples": 20},
        }
    )


LAST = config(training={"keep": "last"})


def place_of(folder, records):
    folder.mkdir()
    write_lines(folder / "utterances.jsonl", records)
    schema = {"intents": [*VERBS], "slots": [*SLOTS.values()], "source": "by hand"}
    (folder / "schema.json").write_text(json.dumps(schema))
    return folder


def run(folder, records, chosen=LAST):
    """A trial with the first of the fixed keys, and its data."""
    reports = []
    with fixed_keys(), medium_grids():
        result = run_alone(
            chosen,
            folder / "trial",
            data=place_of(folder, records),
            report=lambda epoch: reports.append(epoch) or True,
        )
    return result, reports


def opened(folder, chosen=LAST):
    return open_corpus(chosen.data, data_dir=folder, cache_dir=folder / "cache")


def in_part(tmp_path, part, *, wrong=False):
    """A further record that is in a part. A `wrong` one has another's labels."""
    rows = [record("call", "ring", f"canary{number}") for number in range(200)]
    corpus = opened(place_of(tmp_path / f"canaries {part}", rows))
    split = make_split(LAST.data, corpus=corpus, mask_seed=0)
    found = rows[getattr(split, part)[0]]
    if wrong:
        found = {**found, "intent": "play", "tags": ["B-song", "B-song"]}
    return found


def public(result):
    return {
        name: value
        for name, value in result.metrics.items()
        if figures.is_public(name) and not name.startswith("seconds")
    }


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain") / "data"
    return folder, *run(folder, alone(RECORDS))


def test_what_is_public_is_covered(plain):
    _, result, reports = plain
    assert all(map(figures.is_covered, public(result)))
    assert {"ser", "ser_low", "ser_high", "validation_errors"} <= public(result).keys()
    shown = {name for epoch in reports for name in epoch.metrics}
    raw = {name for name in shown if figures.is_public(name)}
    assert all(map(figures.is_covered, raw))
    assert "validation_ser" not in shown


def test_what_is_shown_is_the_cut_sum_with_noise_of_its_own_stream(plain):
    """Kills: a raw figure, noise of another size, a stream that is used twice."""
    folder, result, _ = plain
    key = SecretKey(hashlib.sha256(b"test/0").digest())
    setup = prepare(LAST, comm=Alone(), data_dir=folder, cache_dir=folder / "cache")
    noise = setup.mechanism.held_out_noise
    validation, _ = held_out_sizes(N)
    kept = json.loads((folder / "trial/curator/raw.json").read_text())["validation"]
    stream = key.stream("held out", LAST.id, "validation", 0, 3, "errors")
    drawn = rounded_gaussian(stream, std=3 * noise / 3**0.5)
    raw = kept["num_intent_errors"] + sum(
        kept[f"num_slots_{kind}"] for kind in ("substituted", "deleted", "inserted")
    )
    # Of two words no record has more than 3 errors here.
    assert result.metrics["validation_errors"] == (raw + drawn) / validation
    ids, counts = saved_predictions.read_counts(folder / "trial/curator")
    sums = []
    for name, values, bound in (
        ("errors", counts.slot_errors + counts.intent_errors, 3),
        ("labels", counts.reference_slots + counts.reference_intents, 10),
    ):
        stream = key.stream("held out", LAST.id, "test", 0, 3, name)
        std = bound * noise * (2 / 3) ** 0.5
        sums.append(np.minimum(values, bound).sum() + rounded_gaussian(stream, std=std))
    assert len(ids) == len(setup.split.test)
    assert result.metrics["ser"] == pytest.approx(max(sums[0], 0) / sums[1])


@pytest.mark.parametrize("part", ["validation", "test"])
def test_a_canary_moves_the_sum_of_its_part_alone(plain, tmp_path, part):
    folder, before, _ = plain
    canary = in_part(tmp_path, part, wrong=True)
    after, _ = run(tmp_path / "with", [canary, *alone(RECORDS)])
    weights = [
        (place / "trial/model/weights.safetensors").read_bytes()
        for place in (folder, tmp_path / "with")
    ]
    assert weights[0] == weights[1]
    cards = [each.privacy.to_dict() for each in (before, after)]
    assert [name for name in cards[0] if cards[0][name] != cards[1][name]] == []
    own = {"validation": {"validation_errors"}, "test": {"ser", "ser_low", "ser_high"}}
    found = [public(each) for each in (before, after)]
    moved = {name for name in found[0] if found[0][name] != found[1][name]}
    assert moved
    assert moved <= own[part]
    validation, _ = held_out_sizes(N)
    difference = found[1]["validation_errors"] - found[0]["validation_errors"]
    assert 0 <= difference <= 3 / validation * (1 + 1e-9)


def test_training_is_the_same_bits_whatever_is_covered(tmp_path, monkeypatch):
    """The noise on figures is beside that of training, with streams of its own."""
    monkeypatch.setattr(TrialConfig, "id", "one id")
    weights = []
    for covers in ("all", "training"):
        chosen = config(training={"keep": "last"}, privacy={"covers": covers})
        run(tmp_path / covers, alone(RECORDS), chosen)
        place = tmp_path / covers / "trial/model/weights.safetensors"
        weights.append(place.read_bytes())
    assert weights[0] == weights[1]


def test_raw_figures_are_the_curators_and_in_no_file_that_commands_read(plain):
    folder, result, _ = plain
    trial = folder / "trial"
    assert not (trial / saved_predictions.COUNTS).exists()
    assert not (trial / saved_predictions.BEFORE).exists()
    assert set(json.loads((trial / "curator/raw.json").read_text())) == {
        "test",
        "validation",
    }
    assert result.notes == (result.privacy.provenance,)


def test_weights_are_kept_by_what_is_released_and_nothing_else(tmp_path, monkeypatch):
    def rising(setup, *, epochs):
        return {"validation_errors": 0.1 * epochs.stop}

    monkeypatch.setattr(_held_out, "validate", rising)
    result, reports = run(tmp_path / "data", alone(RECORDS), config())
    losses = [epoch.metrics["train_loss"] for epoch in reports]
    assert losses[2] < losses[0]
    assert result.metrics["best_epoch"] == 1


def test_best_weights_are_those_of_the_released_figure(tmp_path):
    result, reports = run(tmp_path / "data", alone(RECORDS), config())
    shown = [epoch.metrics["validation_errors"] for epoch in reports]
    assert len(set(shown)) == 3
    best = max(n for n, each in enumerate(shown, 1) if each == min(shown))
    assert result.metrics["best_epoch"] == best
    assert result.metrics["validation_errors"] == min(shown)


def test_last_weights_need_one_figure_of_validation_records(plain):
    _, _, reports = plain
    assert [("validation_errors" in each.metrics) for each in reports] == [
        False,
        False,
        True,
    ]


def test_a_record_is_predicted_alone_whatever_the_others_are(tmp_path, monkeypatch):
    """Bit for bit: a batch moves the last digits, on which near-ties turn."""
    chosen, sizes = config(), []
    predict = Clc.predict

    def spied(self, batch):
        found = predict(self, batch)
        sizes.append(batch.num_records)
        rows.append(found.intent_log_probs.numpy().tobytes())
        return found

    monkeypatch.setattr(Clc, "predict", spied)
    every = []
    for name, records in (("all", RECORDS), ("few", RECORDS[::3])):
        folder = place_of(tmp_path / name, alone(records))
        setup = prepare(
            chosen, comm=Alone(), data_dir=folder, cache_dir=folder / "cache"
        )
        rows = []
        ids = np.arange(len(setup.corpus))
        _held_out.predict_alone(setup, ids)
        texts = setup.corpus.token_sequences(ids)
        every.append(dict(zip(texts, rows, strict=True)))
    assert set(sizes) == {1}
    assert all(every[0][text] == row for text, row in every[1].items())


def test_a_record_that_cannot_be_predicted_counts_most_and_ends_nothing(
    tmp_path, monkeypatch
):
    folder = place_of(tmp_path / "data", alone(RECORDS))
    setup = prepare(LAST, comm=Alone(), data_dir=folder, cache_dir=folder / "cache")
    ids = setup.split.test
    predict, calls = Clc.predict, Counter()

    def broken(self, batch):
        calls["all"] += 1
        if calls["all"] == 2:
            raise RuntimeError("a record's own text")
        return predict(self, batch)

    monkeypatch.setattr(Clc, "predict", broken)
    found = _held_out.predict_alone(setup, ids)
    assert found.failed.tolist() == [n == 1 for n in range(len(ids))]
    assert _held_out._errors(setup, ids, found).values[1] == 3
    monkeypatch.setattr(_leakage, "measure", broken)
    assert run(tmp_path / "whole", alone(RECORDS))[0].metrics["ser"] >= 0


@pytest.mark.parametrize("gone", [("validation",), ("test",), ("validation", "test")])
def test_an_empty_part_is_shown_like_any_other(tmp_path, gone):
    rows = alone(RECORDS)
    corpus = opened(place_of(tmp_path / "all", rows))
    split = make_split(LAST.data, corpus=corpus, mask_seed=0)
    dropped = {n for part in gone for n in getattr(split, part).tolist()}
    result, _ = run(
        tmp_path / "few", [each for n, each in enumerate(rows) if n not in dropped]
    )
    assert result.metrics["validation_errors"] != 0
    assert result.metrics["ser"] >= 0


def test_a_group_adds_at_most_what_its_records_may(tmp_path):
    chosen = config(
        privacy={"unit": "group", "max_records_per_group": 2},
        training={"keep": "last", "expected_batch_size": 4},
    )
    chosen = chosen.model_copy(
        update={"data": chosen.data.model_copy(update={"num_records": 9})}
    )
    folder = place_of(tmp_path / "data", RECORDS)
    setup = prepare(chosen, comm=Alone(), data_dir=folder, cache_dir=folder / "cache")
    ids = setup.split.test
    groups = np.asarray(setup.corpus.groups)[ids]
    found = _held_out._errors(setup, ids, _held_out.predict_alone(setup, ids))
    assert found.bound == 6
    assert len(found.values) == len(np.unique(groups))
    assert found.values.max() <= 6


def test_the_card_says_what_is_covered_and_what_is_left(plain):
    _, result, _ = plain
    card = result.privacy
    assert "for every record of the file, whatever its part is" in card.guarantee
    assert card.covers.startswith("every record of the file")
    assert "running time" in card.covers
    assert not any("validation and test sets" in line for line in card.not_covered)
    assert not any("de-duplication" in line for line in card.not_covered)
    assert card.mechanism["split"] == "hash 1, 70:10:20, seed 0"


def test_a_model_that_is_not_trained_pays_for_its_figures(tmp_path):
    fields = {"name": "features", "encoder": "dialogues"}
    chosen = parse(
        {
            **LAST.model_dump(mode="json", include={"data"}),
            "engine": "untrained",
            "model": fields,
            "privacy": {"covers": "all"},
        }
    )
    result, _ = run(tmp_path / "data", alone(RECORDS)[::4], chosen)
    assert 0 < result.metrics["epsilon"] < 0.2
    assert "The model, the released figures" in result.privacy.guarantee
    assert "ser_before_training" not in result.metrics
