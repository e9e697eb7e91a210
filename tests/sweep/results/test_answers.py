import io
import pickle
import time
from types import SimpleNamespace

import pytest
import torch

from sweep import cli, load_model
from sweep.results import selected_trial
from sweep.results.export_encoder import write_encoder
from tests.models._builds import MODELS, SCHEMA, save_model
from tests.refusals import refused
from trainables.config.trial import model_part


def export_folder(folder, name):
    """A folder as `sweep export` leaves it, of an untrained model."""
    config = model_part(**MODELS.get(name, {"name": name}))
    model = config.build(schema=SCHEMA, seed=3)
    save_model(folder / "model", model, config)
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
    assert model(texts[0]) == model(texts[:1])[0]
    assert model([texts[0].split()]) == model(texts[:1])
    assert model([]) == []
    for wrong, said in (
        (["a", " "], "one word, got none in utterance 2"),
        ("", "one word, got none in utterance 1"),
        (["a", b"a"], "a list of tokens in utterance 2, got bytes"),
        (b"a", "in utterance 1, got a number"),
        ("a " * 10_000, "1024 words"),
    ):
        with refused(said):
            model(wrong)


@pytest.mark.parametrize("name", ["clc", "features"])
def test_a_pickled_model_is_loaded_from_its_folder(tmp_path, monkeypatch, name):
    monkeypatch.chdir(export_folder(tmp_path, name))
    model = load_model(".")
    said = model("flights from Boston to denver")
    monkeypatch.chdir("/")
    again = pickle.loads(pickle.dumps(model))
    assert again("flights from Boston to denver") == said


def test_each_line_has_its_answer_or_its_problem(tmp_path, monkeypatch, capsys):
    place = export_folder(tmp_path, "clc")
    lines = [
        b"flights to denver",
        b"",
        b"a " * 100_000,
        b"\xff",
        b"a\0b",
        b"x" * 10**6,
        b"fare",
    ]
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
            "error: expected an utterance in each line, got 5 of 7 lines without one"
            " (the first is line 2)\n"
        )


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
    price = {
        "law": "poisson",
        "mean": 3.0,
        "epsilon_selected": 4.0,
        "delta": 1 / 300_000,
    }
    folder = SimpleNamespace(
        name="chosen",
        space=lambda: SimpleNamespace(
            search=SimpleNamespace(is_private_selection=True)
        ),
        about=lambda: {"selection": price},
        is_unsealed=False,
    )
    vault = SimpleNamespace(selection=lambda: {"trial": "one"})
    monkeypatch.setattr(selected_trial, "Vault", lambda _: vault)
    assert "epsilon_selected 4 at delta 3.33334e-06." in str(
        selected_trial.sentence_of(folder)
    )
