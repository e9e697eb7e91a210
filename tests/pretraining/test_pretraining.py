import numpy as np
import pytest
import torch

from tests.encoders import family_folders
from tests.refusals import refused
from trainables.config.trial import data_config, model_part
from trainables.data.corpus import open_corpus
from trainables.data.records import LabelSchema
from trainables.data.training_overlap import read_hashes
from trainables.models.encoders.about import LEARNT, about_of
from trainables.models.nlu.bert_weights import from_transformers
from trainables.pretraining import left_out, loop, result
from trainables.pretraining.config import parse
from trainables.pretraining.loop import SMALL, pretrain
from trainables.pretraining.result import write

_FIELDS = {
    "name": "tiny",
    "corpora": [
        {"name": "health", "num_utterances": 1_000},
        {"name": "video", "num_utterances": 1_000, "max_records": 200},
    ],
    "epochs": 1,
    "learning_rate": 1e-3,
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """The folder of the encoder that a pretraining starts from."""
    place = tmp_path_factory.mktemp("start") / "bert"
    family_folders.write(place, "bert", num_hidden_layers=2)
    return place


def config(start, **fields):
    return parse(_FIELDS | {"encoder": {"encoder": str(start)}} | fields)


def train(folder, start, report=lambda progress: None, **fields):
    reports = []
    done = pretrain(
        config(start, **fields),
        folder=folder,
        data_dir=folder,
        cache_dir=folder / "cache",
        report=lambda progress: (reports.append(progress), report(progress)),
    )
    return done, reports


def test_it_learns_and_reports_how_far_it_is(start, tmp_path):
    done, reports = train(tmp_path, start, epochs=4)
    assert [each.corpus.name for each in done.corpora] == ["health", "video"]
    assert reports[-1].step == reports[-1].steps
    assert reports[-1].loss < 0.85 * reports[0].loss
    assert done.accuracy[0][1] > 0.3  # tags of the larger one
    for each in done.corpora:
        assert not np.isin(each.held_out, each.train).any()


@pytest.mark.slow  # two encoders
def test_a_resumed_one_gives_the_same_encoder(start, tmp_path, monkeypatch):
    whole, _ = train(tmp_path / "whole", start)
    monkeypatch.setattr(loop, "_SECONDS_BETWEEN_CHECKPOINTS", 0.0)

    class Stop(Exception):
        pass

    def stop(progress):
        if progress.step > 1:
            raise Stop

    with pytest.raises(Stop):
        train(tmp_path / "cut", start, stop)
    later, _ = train(tmp_path / "cut", start)
    for name, tensor in whole.encoder.state_dict().items():
        assert torch.equal(later.encoder.state_dict()[name], tensor), name


@pytest.mark.parametrize("bits", [32, 8])
def test_the_folder_is_read_back_with_its_card_and_heads_read_it(bits, start, tmp_path):
    place = tmp_path / "encoder"
    done, _ = train(tmp_path, start)
    write(done, config(start), place, bits=bits)
    about = about_of(str(place))
    assert [each["name"] for each in about.card["corpora"]] == ["health", "video"]
    assert about.card["private_records_read"] == 0
    assert str(start) not in (place / "encoder.json").read_text()
    part = model_part(name="features", encoder=str(place))
    schema = LabelSchema(intents=("a", "b"), slots=("city",), source="test")
    fixed = part.build(schema=schema, seed=0).fixed[0]
    ours = from_transformers(
        fixed.encoder.model.state_dict(), done.encoder.sizes.layers
    )
    for name, tensor in done.encoder.state_dict().items():
        if not name.startswith(("intent_head", "tag_head", "crf")):
            within = 0.0 if bits == 32 else float(tensor.abs().max()) / 250
            torch.testing.assert_close(ours[name], tensor, rtol=0.0, atol=within)
    tokens, _ = fixed.encoder.moments((0, 1, 2))
    assert (tokens.layers, len(tokens.mean)) == ((0, 1, 2), 3 * 24)
    with refused("without health"):
        part.require_usable(data_config(name="health"))


@pytest.mark.slow  # three encoders
def test_an_encoder_started_from_another_lists_its_corpora(start, tmp_path):
    """Also from those of the first of three; each folder stands alone."""
    learnt, place = [], start
    for number, corpus in enumerate(("health", "video", "communication")):
        fields = {"corpora": [{"name": corpus, "num_utterances": 1_000}]}
        done, _ = train(tmp_path / f"run {number}", place, **fields)
        before, place = place, tmp_path / str(number)
        write(done, config(before, **fields), place)
        learnt.append(result.learnt(done.corpora[0]))
    assert about_of(str(place)).corpora == ("communication", "video", "health")
    assert set(read_hashes(place / LEARNT).tolist()) == set(
        np.concatenate(learnt).tolist()
    )
    assert min(map(len, learnt)) > 900
    for name in ("features", "bert"):
        part = model_part(name=name, encoder=str(place))
        with refused("without health"):
            part.require_usable(data_config(name="health"))


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"corpora": [{"name": "json_lines"}]}, "expected public corpora"),
        ({"leave_out": ["atis"], "corpora": [{"name": "atis"}]}, "got atis in both"),
        ({"corpora": []}, "corpora"),
        ({"epoch": 3}, "did you mean epochs"),
        (
            {"encoder": {"encoder": "dialogues", "trained": "biases"}},
            "encoder.trained=all",
        ),
        ({"encoder": {"name": "clc"}}, "encoder.name: .*'bert', got 'clc'"),
        ({"encoder": {}}, "encoder.encoder to name a public encoder, .* got scratch"),
        ({"layers": [0, 3]}, r"layers from 0 to 2, got \[0, 3\]"),
        ({"frozen_layers": 2}, "frozen_layers below encoder.num_layers=2, got 2"),
        ({"name": "../up"}, "name"),
        ({"encoder": 3}, "encoder: expected a mapping, got 3"),
        ({"corpora": ["atis"]}, r"corpora\.0: expected a mapping, got 'atis'"),
    ],
)
def test_what_is_refused(fields, match, start):
    with refused(match):
        config(start, **fields)


def test_a_vocabulary_is_one_of_word_pieces(start, tmp_path):
    with refused("vocabulary from"):
        train(tmp_path, start, vocabulary=100_000)
    other = tmp_path / "roberta"
    family_folders.write(other, "roberta")
    with refused("word pieces"):
        train(tmp_path, other, vocabulary=150)


def test_frozen_layers_keep_their_weights(start, tmp_path):
    done, _ = train(tmp_path, start, frozen_layers=1)
    before = config(start).encoder.build(schema=SMALL, seed=0).state_dict()
    after = done.encoder.state_dict()
    same = {name for name, tensor in before.items() if torch.equal(tensor, after[name])}
    assert {"word.weight", "embedding_norm.weight", "layers.0.qkv.weight"} <= same
    assert "layers.1.qkv.weight" not in same


def test_texts_that_are_listed_are_left_out(start, tmp_path, monkeypatch):
    left_out.hashes_of_texts(
        ["atis", "snips", "nlu_eval"]
    )  # those in the repository are hashes
    monkeypatch.setattr(left_out, "_LISTS", tmp_path)
    made = tmp_path / "cache"
    lines = left_out.shared_texts(
        "health", ["health"], data_dir=tmp_path, cache_dir=made
    )
    (tmp_path / "mine.txt").write_text("\n".join(lines[:50]))
    health = data_config(name="health", num_utterances=1_000)
    corpus = open_corpus(health, data_dir=tmp_path, cache_dir=made)
    expected = int(
        np.isin(corpus.record_hashes(b""), left_out.hashes_of_texts(["mine"])).sum()
    )
    done, _ = train(tmp_path, start, leave_out=["mine"], corpora=[health])
    assert done.corpora[0].left_out == expected > 0
    with refused("leave_out from mine"):
        left_out.hashes_of_texts(["nothing"])
