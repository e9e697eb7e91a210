"""Public pretraining: allowed corpora, results, resuming."""

import shutil

import numpy as np
import pytest
import torch

from tests.refusals import refused
from tests.sweep.results.test_exported_paths import of_words
from trainables import catalogue
from trainables.config import data_config, model_part
from trainables.data.corpus import open_corpus
from trainables.data.records import LabelSchema
from trainables.encoders.about import read_about, read_learnt
from trainables.encoders.source import WORDS, read
from trainables.encoders.word_vectors import VectorFile
from trainables.models.features import build, require_usable
from trainables.pretraining import left_out, loop, result
from trainables.pretraining.config import parse
from trainables.pretraining.loop import pretrain
from trainables.pretraining.model import SMALL
from trainables.pretraining.result import write

_FIELDS = {
    "name": "tiny",
    "encoder": {"name": "clc", "word_buckets": 200, "word_dim": 8, "hidden_size": 8},
    "corpora": [
        {"name": "health", "num_utterances": 1_000},
        {"name": "video", "num_utterances": 1_000, "max_records": 200},
    ],
    "epochs": 1,
    "learning_rate": 1e-2,
}


def config(**fields):
    return parse(_FIELDS | fields)


def train(folder, **fields):
    reports = []
    done = pretrain(
        config(**fields),
        folder=folder,
        data_dir=folder,
        cache_dir=folder / "cache",
        report=reports.append,
    )
    return done, reports


def test_it_learns_and_reports_how_far_it_is(tmp_path):
    done, reports = train(tmp_path, epochs=4)
    assert [each.corpus.name for each in done.corpora] == ["health", "video"]
    assert reports[-1].step == reports[-1].steps
    assert reports[-1].loss < 0.85 * reports[0].loss
    assert done.accuracy[0][1] > 0.3  # tags of the larger one
    for each in done.corpora:
        assert not np.isin(each.held_out, each.train).any()


def test_a_resumed_one_gives_the_same_encoder(tmp_path, monkeypatch):
    whole, _ = train(tmp_path / "whole")
    monkeypatch.setattr(loop, "_SECONDS_BETWEEN_CHECKPOINTS", 0.0)

    class Stop(Exception):
        pass

    def stop(progress):
        if progress.step > 1:
            raise Stop

    with pytest.raises(Stop):
        pretrain(
            config(),
            folder=tmp_path / "cut",
            data_dir=tmp_path,
            cache_dir=tmp_path / "cut" / "cache",
            report=stop,
        )
    later, _ = train(tmp_path / "cut")
    for name, tensor in whole.encoder.state_dict().items():
        assert torch.equal(later.encoder.state_dict()[name], tensor), name


def test_the_folder_is_read_back_with_its_card_and_heads_read_it(tmp_path):
    done, _ = train(tmp_path)
    write(done, config(), tmp_path / "encoder")
    found = read(str(tmp_path / "encoder"))
    assert [each["name"] for each in found.card["corpora"]] == ["health", "video"]
    assert found.card["private_records_read"] == 0
    assert sum(found.moments[0].widths) == len(found.moments[0].mean)
    part = model_part(name="features", encoder=str(tmp_path / "encoder"))
    schema = LabelSchema(intents=("a", "b"), slots=("city",), source="test")
    model = build(part, schema=schema, seed=0)
    ours = model.fixed[0].encoder.state_dict()
    for name, tensor in done.encoder.state_dict().items():
        if not name.startswith(("intent_head", "tag_head", "crf")):
            assert torch.equal(ours[name], tensor), name
    with refused("without health"):
        require_usable(part, data_config(name="health"))


def test_an_encoder_started_from_another_lists_its_corpora(tmp_path):
    """Also from those of the first of three; each folder stands alone."""
    start = _FIELDS["encoder"]
    learnt = []
    for number, corpus in enumerate(("health", "video", "communication")):
        fields = {"encoder": start, "corpora": [{"name": corpus, "num_utterances": 1_000}]}
        done, _ = train(tmp_path / f"run {number}", **fields)
        write(done, config(**fields), tmp_path / str(number))
        learnt.append(result.learnt(done.corpora[0]))
        start = {"name": "clc", "encoder": str(tmp_path / str(number))}
    assert read_about(str(tmp_path / "2")).corpora == ("communication", "video", "health")
    known = read_learnt(read_about(str(tmp_path / "2")))
    assert set(known.tolist()) == set(np.concatenate(learnt).tolist())
    assert min(map(len, learnt)) > 900
    for name in ("features", "clc"):
        part = model_part(name=name, encoder=str(tmp_path / "2"))
        with refused("without health"):
            catalogue.entry("models", name).require_usable(part, data_config(name="health"))


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"corpora": [{"name": "json_lines"}]}, "expected public corpora"),
        ({"leave_out": ["atis"], "corpora": [{"name": "atis"}]}, "got atis in both"),
        ({"corpora": []}, "corpora"),
        ({"epoch": 3}, "did you mean epochs"),
        ({"encoder": {"name": "clc", "trained": "heads"}}, "encoder.trained=all"),
        ({"encoder": {"name": "causal_lm"}}, "to be one of"),
        ({"encoder": {"name": "features"}}, "encoder.name=bert or clc, .* got features"),
        ({"name": "../up"}, "name"),
        ({"encoder": 3}, "encoder: expected a mapping, got 3"),
        ({"corpora": ["atis"]}, r"corpora\.0: expected a mapping, got 'atis'"),
    ],
)
def test_what_is_refused(fields, match):
    with refused(match):
        config(**fields)


@pytest.mark.parametrize("vocabulary", [None, 100])
def test_an_encoder_of_a_file_of_words_keeps_the_table_and_no_path(tmp_path, vocabulary):
    """The folder is handed on: it needs no file of this machine and names none."""
    number = 120
    vectors = tmp_path / "mine.vec"
    rows = np.random.default_rng(0).standard_normal((number, 8)).round(3).tolist()
    lines = [f"word{k} {' '.join(map(str, row))}" for k, row in enumerate(rows)]
    vectors.write_text("\n".join(lines) + "\n")
    encoder = {"name": "clc", "word_vectors": str(vectors), "hidden_size": 8, "word_buckets": 10}
    fields = {"encoder": encoder, "vocabulary": vocabulary}
    done, _ = train(tmp_path, **fields)
    place = tmp_path / "encoder"
    place.mkdir()
    shutil.copyfile(tmp_path / WORDS, place / WORDS)  # as `sweep pretrain` does
    write(done, config(**fields), place)
    (tmp_path / WORDS).unlink()
    vectors.unlink()
    found = read(str(place))
    assert VectorFile(str(place / WORDS)).first(1_000).shape == (vocabulary or number, 8)
    assert found.model["word_vectors"] == str(place / WORDS)
    assert str(tmp_path) not in (place / "encoder.json").read_text()
    # The rows that were trained are not called frozen.
    assert "first 10 rows trained, others frozen" in found.card["starts_from"]
    words = f"first {vocabulary} words of vectors of a local file"
    assert (words in found.card["starts_from"]) == (vocabulary is not None)


def test_an_encoder_that_went_on_from_one_of_a_file_of_words_names_no_path(tmp_path):
    old, place = tmp_path / "old", tmp_path / "encoder"
    of_words(old)
    fields = {"encoder": {"name": "clc", "encoder": str(old)}}
    done, _ = train(tmp_path, **fields)
    write(done, config(**fields), place)
    assert str(tmp_path) not in (place / "encoder.json").read_text()
    (tmp_path / "mine.vec").unlink()
    assert VectorFile(read(str(place)).model["word_vectors"]).first(1_000).shape == (20, 6)


def test_a_vocabulary_is_one_of_vectors_or_pieces(tmp_path):
    with refused("vocabulary with a file of word vectors"):
        train(tmp_path, vocabulary=100)
    scratch = {"name": "bert", "hidden_size": 24, "num_layers": 1, "intermediate_size": 24}
    with refused("word pieces"):
        train(tmp_path, encoder=scratch, vocabulary=100)


def test_frozen_layers_keep_their_weights(tmp_path):
    sizes = {"hidden_size": 24, "num_layers": 2, "intermediate_size": 24, "word_buckets": 200}
    encoder = {"name": "bert", **sizes}
    done, _ = train(tmp_path, encoder=encoder, frozen_layers=1)
    before = catalogue.entry("models", "bert").build(
        config(encoder=encoder).encoder, schema=SMALL, seed=0
    )
    after = done.encoder.state_dict()
    same = {
        name for name, tensor in before.state_dict().items() if torch.equal(tensor, after[name])
    }
    assert {"word.weight", "embedding_norm.weight", "layers.0.qkv.weight"} <= same
    assert "layers.1.qkv.weight" not in same
    for fields in ({"encoder": encoder, "frozen_layers": 2}, {"frozen_layers": 1}):
        with refused("expected frozen_layers below"):
            train(tmp_path / "other", **fields)


def test_texts_that_are_listed_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(left_out, "_LISTS", tmp_path)
    made = tmp_path / "cache"
    lines = left_out.shared_texts("health", ["health"], data_dir=tmp_path, cache_dir=made)
    (tmp_path / "mine.txt").write_text("\n".join(lines[:50]))
    health = data_config(name="health", num_utterances=1_000)
    corpus = open_corpus(health, data_dir=tmp_path, cache_dir=made)
    expected = int(np.isin(corpus.record_hashes(b""), left_out.hashes_of_texts(["mine"])).sum())
    done, _ = train(tmp_path, leave_out=["mine"], corpora=[health])
    assert done.corpora[0].left_out == expected > 0
    with refused("leave_out from mine"):
        left_out.hashes_of_texts(["nothing"])


def test_the_lists_in_the_repository_hold_hashes_alone():
    for name in ("atis", "snips", "nlu_eval"):
        assert left_out.hashes_of_texts([name]).dtype == np.uint64
