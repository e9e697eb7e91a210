"""Opening a corpus: the stored records are those read, encoded once for any number of
openings.
"""

import json
import multiprocessing
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from tests.flushes import flushes
from tests.lines import write_lines
from tests.refusals import refused
from tests.utterances import said
from trainables.config.trial import data_config
from trainables.data import storage
from trainables.data.corpus import open_corpus
from trainables.data.records import LabelSchema, Utterance
from trainables.data.sizes import declared_pool_size, declared_training_size
from trainables.errors import InvalidData

DATA = Path(os.environ.get("SWEEP_DATA_DIR", "data"))
SCHEMA = LabelSchema(("call", "play"), ("who",), source="a test")


def fields_of(utterances):
    """The rows of a file of JSON lines."""
    return [
        {"tokens": u.tokens, "tags": u.tags, "intent": u.intent, "part": u.part}
        | ({"group": u.group} if u.group else {})
        for u in utterances
    ]


def make_utterances(n):
    """n distinct utterances of 1 to 12 tokens."""
    rng = np.random.default_rng(0)
    for number in range(n):
        length = int(rng.integers(0, 12))
        words = (*(f"w{w}" for w in rng.integers(0, 50, length)), f"n{number}")
        yield Utterance(
            words, ("O",) * length + ("B-who",), ("call", "play")[number % 2]
        )


@pytest.fixture
def place(tmp_path):
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    (data / "schema.json").write_text(
        json.dumps({"intents": ["call", "play"], "slots": ["who"]})
    )

    def opened(utterances=None, **fields):
        if utterances is not None:
            write_lines(data / "utterances.jsonl", fields_of(utterances))
        config = data_config(
            **{"name": "json_lines", "schema_file": "schema.json", **fields}
        )
        return open_corpus(config, data_dir=data, cache_dir=cache)

    opened.data, opened.cache = data, cache
    return opened


def test_what_is_stored_is_what_was_read(place):
    utterances = list(make_utterances(300))
    corpus = place(utterances)
    ids = np.arange(300)
    assert corpus.num_records == len(corpus) == 300
    assert corpus.token_sequences(ids) == [u.tokens for u in utterances]
    assert corpus.tag_sequences(ids) == [u.tags for u in utterances]
    assert corpus.intent_names(ids) == [u.intent for u in utterances]
    assert corpus.lengths.tolist() == [len(u.tokens) for u in utterances]
    frame = corpus.frames(np.array([7]))[0]
    length = corpus.lengths[7]
    assert (frame.intent, frame.slots) == ("play", (("who", length - 1, length),))
    assert not corpus.outside.any()
    assert corpus.groups is None


def test_equal_texts_stay_once_and_are_counted(place):
    one = said("Call [who : ann]", "call")
    other = said("call ANN", "play")
    corpus = place([one, other, *make_utterances(5), one])
    assert (corpus.num_records, corpus.num_duplicates) == (6, 2)
    assert corpus.intent_names(np.array([0])) == ["call"]  # the first stays


def test_labels_outside_the_schema_keep_their_names_and_mark_the_record(place):
    utterances = [
        said("a", "call"),
        said("[when : b]", "call"),
        Utterance(("c", "d"), ("B-who", "I-when"), "stop"),
        said("e", "wait"),
    ]
    corpus = place(utterances)
    ids = np.arange(4)
    assert corpus.outside.tolist() == [False, True, True, True]
    assert (corpus.intents < 0).tolist() == [False, False, True, True]
    assert corpus.intent_names(ids) == [u.intent for u in utterances]
    assert corpus.tag_sequences(ids) == [u.tags for u in utterances]


def test_groups_are_numbered(place):
    groups = ["x", "y", "x"]
    corpus = place(
        [Utterance((f"t{n}",), ("O",), "call", group=g) for n, g in enumerate(groups)]
    )
    assert corpus.groups.tolist() == [0, 1, 0]


def test_a_second_opening_maps_the_same_files(place, monkeypatch):
    first = place(make_utterances(50))
    monkeypatch.setattr(storage, "write", None)  # nothing is encoded again
    again = place()
    assert again.fingerprint == first.fingerprint
    assert isinstance(again.tokens, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        again.tokens[0] = 1


def test_a_changed_file_is_another_corpus(place):
    first = place(make_utterances(50))
    assert place(make_utterances(51)).fingerprint != first.fingerprint
    assert place(make_utterances(50)).fingerprint == first.fingerprint


def test_the_cache_is_for_its_owner_alone(place):
    place(make_utterances(5))
    folders = [place.cache, *(p for p in place.cache.iterdir() if p.is_dir())]
    assert len(folders) == 2
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}


@pytest.mark.parametrize("fields", [{}, {"max_records": 20}])
def test_it_is_on_the_disk_before_it_has_its_name(place, fields, monkeypatch):
    """Whole after a power failure, which leaves a file without what was not flushed."""
    with flushes(monkeypatch) as flushed:
        place(make_utterances(50), **fields)
    for folder in (path for path in place.cache.iterdir() if path.is_dir()):
        assert len(written := [folder, *folder.iterdir()]) > 7
        assert {path.stat().st_ino for path in written} <= flushed


def test_a_failed_encoding_leaves_nothing(place):
    (place.data / "utterances.jsonl").write_text('{"tokens": []}\n')
    with refused("line 1", InvalidData):
        place()
    assert not [p for p in place.cache.iterdir() if p.is_dir()]


def test_a_damaged_cache_is_named(place):
    place(make_utterances(5))
    (folder,) = (p for p in place.cache.iterdir() if p.is_dir())
    np.save(folder / "tags.npy", np.zeros(3, dtype=np.int16))
    with refused("delete it", InvalidData):
        place()


def _open(data, cache, queue):
    config = data_config(name="json_lines", schema_file="schema.json")
    queue.put(open_corpus(config, data_dir=data, cache_dir=cache).fingerprint)


def test_processes_that_open_at_once_get_one_corpus(place):
    write_lines(place.data / "utterances.jsonl", fields_of(make_utterances(3_000)))
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    openers = [
        context.Process(target=_open, args=(place.data, place.cache, queue))
        for _ in range(2)
    ]
    for process in openers:
        process.start()
    found = {queue.get(timeout=60) for _ in openers}
    for process in openers:
        process.join()
    assert len(found) == 1
    assert len([p for p in place.cache.iterdir() if p.is_dir()]) == 1


def test_a_subset_is_drawn_by_the_split_seed(place):
    whole = place(make_utterances(200))
    texts = dict.fromkeys(whole.token_sequences(np.arange(200)))
    one, same, other = (place(max_records=40, split_seed=seed) for seed in (1, 1, 2))
    assert one.num_records == 40
    assert set(one.token_sequences(np.arange(40))) <= set(texts)
    assert one.fingerprint == same.fingerprint != other.fingerprint
    with refused("at most the number of records, got 201") as refusal:
        place(max_records=201)
    assert "200" not in str(refusal.value), "plans and reports keep it"


def test_hashes_know_texts_and_need_the_key(place):
    corpus = place([said("Call ann", "call"), *make_utterances(5)])
    hashes = corpus.record_hashes(b"key")
    assert hashes[0] == storage.text_hash(("call", "ANN"), key=b"key")
    assert len(set(hashes.tolist())) == 6
    assert not (hashes == corpus.record_hashes(b"other")).any()


def test_chunks_do_not_show(tmp_path, monkeypatch):
    """The columns do not depend on how many records are written at a time."""
    folders = []
    for chunk in (7, 1_000):
        monkeypatch.setattr(storage, "_CHUNK", chunk)
        folder = tmp_path / str(chunk)
        folder.mkdir()
        storage.write(
            folder, [*make_utterances(100), *make_utterances(30)], schema=SCHEMA
        )
        folders.append(storage.read(folder))
    one, other = folders
    for name, column in one.arrays.items():
        np.testing.assert_array_equal(column, other.arrays[name])
    assert one.types == other.types
    assert one.meta["num_duplicates"] == 30


def test_values_read_from_private_records_are_listed(place):
    assert place(make_utterances(20), num_records=9).undeclared == ()
    (size,) = place().undeclared
    assert "data.num_records" in size
    labels, _ = place(schema_file=None).undeclared
    assert "data.schema_file" in labels


@pytest.mark.parametrize(
    ("name", "pool", "train", "official"),
    [("atis", 5_473, 2_463, 4_189), ("snips", 14_213, 6_396, 12_859)],
)
def test_declared_sizes_are_those_of_the_opened_corpus(
    name, pool, train, official, tmp_path
):
    config = data_config(name=name)
    assert declared_pool_size(config) == pool
    assert declared_training_size(config) == train
    assert declared_training_size(data_config(name=name, split="official")) == official
    assert declared_training_size(data_config(name=name, max_records=1_000)) == 450
    if not (DATA / name).is_dir():
        pytest.skip(f"{name} is not in SWEEP_DATA_DIR={DATA}")
    corpus = open_corpus(config, data_dir=DATA, cache_dir=tmp_path)
    assert corpus.num_records == pool
    assert corpus.undeclared == ()
    assert (corpus.part == 0).sum() == official


def test_private_sizes_are_not_known_beforehand():
    config = data_config(name="json_lines")
    assert declared_pool_size(config) is None
    assert declared_training_size(config) is None
    assert declared_training_size(data_config(name="json_lines", num_records=7)) == 7
