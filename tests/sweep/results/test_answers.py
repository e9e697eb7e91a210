"""What a sweep answers: which axis mattered, what to try next, which of two is better, and a model
that another person can use.
"""

import io
import json
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sweep import cli, load_model
from sweep.results import selected_trial
from sweep.results.advice import advice
from sweep.results.comparison import compare, side
from sweep.results.export_encoder import write_encoder
from sweep.results.importance import importance
from sweep.results.standing import standings
from sweep.results.tables.comparison import sentences
from tests.models._builds import MODELS, SCHEMA
from tests.refusals import refused
from tests.sweep.results.test_select import record
from tests.sweep.sweeps import settings_in
from tests.sweep.untracked import run_untracked
from trainables import catalogue, evidence
from trainables.config import model_part
from trainables.data.records import Frame
from trainables.metrics import count_frames

C, LR = "privacy.max_grad_norm", "training.learning_rate"


def trial(name, values, ser, **metrics):
    made = record(name, validation_ser=ser, ser=ser, **metrics)
    return replace(made, plan=replace(made.plan, values=values, variant="v"))


def grid(ser_of):
    return [
        trial(f"c{c}-lr{lr}", {C: c, LR: lr, "training.seed": 0}, ser_of(c, lr))
        for c in (0.1, 0.5, 1.0, 2.0)
        for lr in (0.001, 0.01, 0.1)
    ]


def said_of(records):
    return advice(records, standings(records))


def test_the_axis_that_moves_the_metric_is_the_one_that_matters():
    found = importance(grid(lambda c, lr: c + 0.01 * lr))
    assert list(found.shares) == [C, LR]
    assert found.shares[C] > 0.9
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert found.explained > 0.5


def test_chance_explains_nothing():
    """The shares of noise add up to 1 as well: the R² is what tells it from an effect."""
    random = np.random.default_rng(0)
    found = importance(grid(lambda c, lr: float(random.random())))
    assert found.explained < 0.2


def test_too_few_trials_say_nothing():
    assert importance(grid(lambda c, lr: c)[:5]) is None
    assert said_of(grid(lambda c, lr: c)[:3]) == []


def test_the_best_at_the_edge_of_what_was_tried_asks_for_more():
    records = grid(lambda c, lr: c + 0.01 * lr)
    said = said_of(records)
    assert "C: the best trial has the smallest value tried, 0.1: try smaller" in said


def test_the_best_trial_of_each_corpus_is_named_with_it():
    def on(corpus, ser_of):
        return [
            replace(
                each,
                plan=replace(
                    each.plan,
                    id=f"{corpus}-{each.plan.id}",
                    origin={**each.plan.fields, "data": {"name": corpus}},
                    values={**each.plan.values, "data.name": corpus},
                ),
            )
            for each in grid(ser_of)
        ]

    records = [*on("atis", lambda c, lr: c), *on("snips", lambda c, lr: 5 - c)]
    said = said_of(records)
    assert "C: the best trial on atis has the smallest value tried, 0.1: try smaller" in said
    assert "C: the best trial on snips has the largest value tried, 2: try larger" in said


def test_two_trials_within_their_intervals_are_indistinguishable():
    near = [
        trial(f"t{i}", {C: float(i)}, 0.3 + i / 1000, ser_low=0.2, ser_high=0.4) for i in range(4)
    ]
    assert any("are indistinguishable" in s for s in said_of(near))


def test_a_comparison_is_paired_over_the_same_utterances(tmp_path):
    folder = run_untracked(tmp_path)
    home = settings_in(tmp_path).home
    _, first, second = folder.plan().trials
    truth = [Frame("call", (("contact", i, i + 1),)) for i in range(200)]
    wrong = [Frame("text", frame.slots) if i % 4 == 0 else frame for i, frame in enumerate(truth)]
    worse = [Frame("text", frame.slots) if i % 2 == 0 else frame for i, frame in enumerate(truth)]
    for plan, said in ((first, wrong), (second, worse)):
        counts = count_frames(truth, said)
        evidence.write_counts(folder.trial_folder(plan.id), np.arange(200), counts)
    a, b = (side(home, f"toy:{plan.id}") for plan in (first, second))
    found = compare(a, b)
    assert found.paired is not None
    change, low, high = found.paired
    assert change == pytest.approx(100.0)
    assert 50 < low < 100 < high
    assert compare(a, a).paired == (0.0, 0.0, 0.0)
    evidence.write_counts(folder.trial_folder(first.id), np.arange(200), count_frames(truth, truth))
    right = compare(replace(a, record=replace(a.record, metrics={"ser": 0.0})), b)
    assert right.paired is None
    assert sentences(right) == ["SER has no change in percent, because A makes no error."]
    with refused(r"epsilon-max=8, which chooses .* got the trial toy:"):
        side(home, f"toy:{first.id}", epsilon_max=8)
    with refused("no sweep named other"):
        side(home, "other")
    with refused("no trial"):
        side(home, "toy:zzz")


def export_folder(folder, name):
    """A folder as `sweep export` leaves it, of an untrained model."""
    config = model_part(**(MODELS[name]))
    model = catalogue.entry("models", config.name).build(config, schema=SCHEMA, seed=3)
    place = folder / "model"
    place.mkdir(parents=True)
    save_file(model.state_dict(), str(place / "weights.safetensors"))
    about = {
        "model": config.model_dump(mode="json"),
        "intents": list(SCHEMA.intents),
        "slots": list(SCHEMA.slots),
        "schema_source": SCHEMA.source,
    }
    (place / "model.json").write_text(json.dumps(about))
    return folder


@pytest.mark.parametrize("name", ["clc", "bert"])
def test_an_exported_folder_predicts_each_utterance_by_itself(tmp_path, name):
    model = load_model(export_folder(tmp_path, name))
    texts = ["flights from Boston to denver", "é", "what is the fare on the 18th"]
    together = model(texts)
    assert [len(found.tokens) for found in together] == [5, 1, 7]
    for text, found in zip(texts, together, strict=True):
        (alone,) = model([text])
        assert (alone.intent, alone.slots) == (found.intent, found.slots)
        assert alone.confidence == pytest.approx(found.confidence, rel=1e-4)
        assert 0 < found.confidence < 1
    with refused("utterance 2"):
        model(["a", " "])


def test_each_line_has_its_answer_or_its_problem(tmp_path, monkeypatch, capsys):
    place = export_folder(tmp_path, "clc")
    lines = [b"flights to denver", b"", b"a " * 100_000, b"\xff", b"a\0b", b"x" * 10**6, b"fare"]
    bad = {2: "one word", 3: "1024 words", 4: "UTF-8", 5: "NUL", 6: "characters"}
    for option, problem in (("--json", '{"error": "expected'), ("", "error: line ")):
        stdin = io.TextIOWrapper(io.BytesIO(b"\n".join(lines)))
        monkeypatch.setattr("sys.stdin", stdin)
        begun = time.process_time()
        assert cli.run(["predict", str(place), *filter(None, [option])]) == 2
        assert time.process_time() - begun < 10
        out, err = capsys.readouterr()
        answers = out.splitlines()
        assert len(answers) == len(lines)
        for number, answer in enumerate(answers, start=1):
            assert answer.startswith(problem) == (number in bad)
            assert bad.get(number, "") in answer
        assert err == (
            "error: expected an utterance in each line, got 5 of 7 lines without one (the first"
            " is line 2)\n"
        )


def test_what_is_no_model_is_refused(tmp_path):
    with refused("to be an exported folder"):
        load_model(tmp_path)
    place = export_folder(tmp_path / "damaged", "clc")
    (place / "model" / "weights.safetensors").write_bytes(b"nothing")
    with pytest.raises(Exception, match="readable model"):
        load_model(place)


@pytest.mark.parametrize("name", ["bert", "bert, biases"])
def test_transformers_loads_the_encoder_of_an_exported_bert(name, tmp_path):
    from transformers import BertModel

    place = export_folder(tmp_path, name) / "model"
    found = write_encoder(place)
    assert found is not None
    encoder, loading = BertModel.from_pretrained(
        found, add_pooling_layer=False, output_loading_info=True
    )
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    ours = load_model(tmp_path / "model" / "..").model
    assert torch.equal(encoder.embeddings.word_embeddings.weight, ours.word.weight)
    assert write_encoder(export_folder(tmp_path / "clc", "clc") / "model") is None


def test_the_delta_of_the_chosen_trial_is_not_rounded_down(monkeypatch):
    price = {"law": "poisson", "mean": 3.0, "epsilon_selected": 4.0, "delta": 1 / 300_000}
    folder = SimpleNamespace(
        name="chosen",
        space=lambda: SimpleNamespace(search=SimpleNamespace(is_private_selection=True)),
        about=lambda: {"selection": price},
        is_unsealed=False,
    )
    vault = SimpleNamespace(selection=lambda: {"trial": "one"})
    monkeypatch.setattr(selected_trial, "Vault", lambda _: vault)
    assert "epsilon_selected 4 at delta 3.33334e-06." in str(selected_trial.sentence_of(folder))
