"""Parts by hash: a record's part is its own, and one record more changes nothing of the
others.
"""

import json
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.lines import write_lines
from trainables.config.trial import data_config
from trainables.data import storage
from trainables.data.batches import Loader
from trainables.data.corpus import open_corpus
from trainables.data.records import LabelSchema, Utterance
from trainables.data.split import held_out_sizes, make_split, training_size
from trainables.models.encoders.cache import cached_rows

SCHEMA = LabelSchema(intents=("a", "b"), slots=(), source="by hand")


def utterance(words, intent="a", group=None):
    tokens = tuple(words.split())
    return Utterance(tokens, ("O",) * len(tokens), intent, group=group)


def opened(folder, records, **fields):
    """The corpus of a file of these records and its split."""
    folder.mkdir(exist_ok=True)
    write_lines(folder / "u.jsonl", records)
    schema = {"intents": ["a", "b"], "slots": [], "source": "by hand"}
    (folder / "s.json").write_text(json.dumps(schema))
    config = data_config(
        name="json_lines",
        path=str(folder / "u.jsonl"),
        schema_file=str(folder / "s.json"),
        split="hash",
        **fields,
    )
    corpus = open_corpus(config, data_dir=folder, cache_dir=folder / "cache")
    return corpus, make_split(config, corpus=corpus, mask_seed=0)


def parts_of(corpus, split):
    """What a trial reads of each part, as a multiset."""
    found = {}
    for name in ("train", "validation", "test"):
        ids = getattr(split, name)
        rows = zip(corpus.token_sequences(ids), corpus.intent_names(ids), strict=True)
        found[name] = Counter(rows)
    return found


def record(n, **fields):
    return {"tokens": ["record", str(n)], "intent": "ab"[n % 2], **fields}


def test_parts_have_their_shares_and_cover_every_record(tmp_path):
    corpus, split = opened(tmp_path, [record(n) for n in range(3_000)])
    sizes = [len(ids) for ids in (split.train, split.validation, split.test)]
    assert sum(sizes) == len(corpus) == 3_000
    for size, share in zip(sizes, (0.7, 0.1, 0.2), strict=True):
        # 5 standard deviations: 1 in 10^6
        assert abs(size - 3_000 * share) < 5 * (3_000 * share * (1 - share)) ** 0.5
    assert training_size(3_000, data_config(split="hash")) == 2_100
    assert held_out_sizes(2_100) == (300, 600)


@pytest.mark.parametrize("gone", [0, 7, 39])
def test_one_record_less_changes_its_own_part_by_itself(tmp_path, gone):
    records = [record(n) for n in range(40)]
    whole = parts_of(*opened(tmp_path / "whole", records))
    records.pop(gone)
    less = parts_of(*opened(tmp_path / "less", records))
    changes = {name: whole[name] - less[name] for name in whole}
    assert sum(each.total() for each in changes.values()) == 1
    assert all(not less[name] - whole[name] for name in whole)


def test_another_seed_is_another_split(tmp_path):
    records = [record(n) for n in range(200)]
    splits = [opened(tmp_path, records, split_seed=seed)[1] for seed in (0, 0, 1)]
    assert splits[0].test.tolist() == splits[1].test.tolist()
    assert splits[0].test.tolist() != splits[2].test.tolist()
    # By chance 0.7^2 + 0.1^2 + 0.2^2 = 54 % agree: 200 coins, 6 standard deviations.
    both = np.isin(splits[0].train, splits[2].train).mean()
    assert 0.45 < both < 0.9


def test_equal_texts_of_other_labels_both_stay_in_one_part(tmp_path):
    """Of equal texts alone the first one's labels would be read: one record less would
    bring in another's.
    """
    twice = {"tokens": ["play", "it"]}
    records = [{**twice, "intent": "a"}, {**twice, "intent": "b"}, record(1)]
    corpus, split = opened(tmp_path, [*records, records[0]])
    assert (len(corpus), corpus.num_duplicates) == (3, 1)
    holding = [
        name
        for name, each in parts_of(corpus, split).items()
        for tokens, _ in each
        if tokens == ("play", "it")
    ]
    assert len(holding) == 2
    assert len(set(holding)) == 1


def test_a_group_is_in_one_part_and_its_repeats_are_its_own(tmp_path):
    records = [
        record(n % 30, group=f"user {n % 7}") for n in range(300)
    ]  # each text in every group
    corpus, split = opened(tmp_path, records)
    assert corpus.num_duplicates == 300 - 210
    for group in range(7):
        ids = np.flatnonzero(np.asarray(corpus.groups) == group)
        within = [
            np.isin(ids, part).all()
            for part in (split.train, split.validation, split.test)
        ]
        assert sum(within) == 1


WORDS = st.text("ab ", min_size=1, max_size=4).filter(str.strip)
RECORDS = st.lists(
    st.builds(utterance, WORDS, st.sampled_from("ab"), st.sampled_from([None, "g"])),
    min_size=1,
    max_size=6,
)


@given(RECORDS, st.data())
def test_what_is_kept_of_a_file_differs_by_at_most_the_record_that_does(records, data):
    gone = data.draw(st.integers(0, len(records) - 1))
    kept = Counter(storage.distinct(records))
    less = Counter(storage.distinct(records[:gone] + records[gone + 1 :]))
    assert not less - kept
    assert kept - less in (Counter(), Counter([records[gone]]))


def test_a_group_never_shares_the_key_of_a_text():
    alone, grouped = utterance("a"), utterance("b", group="a")
    assert storage.part_key(alone) != storage.part_key(grouped)
    assert storage.part_key(grouped) == storage.part_key(utterance("c", group="a"))


def test_rows_of_an_encoder_are_computed_of_each_record_alone(tmp_path):
    """A batch would move their last digits, and with them a prediction near a tie."""
    corpus, _ = opened(tmp_path, [record(n) for n in range(12)])
    sizes = []

    def compute(batch):
        sizes.append(batch.num_records)
        tokens = torch.zeros(int(batch.lengths.sum()), 2)
        return {"tokens": tokens, "records": torch.zeros(batch.num_records, 2)}

    loader = Loader(corpus, Nothing())
    cached_rows(corpus, loader, compute, recipe={}, cache_dir=tmp_path)
    assert sizes == [1] * 12
    corpus.part_keys = None
    sizes.clear()
    cached_rows(corpus, loader, compute, recipe={"other": 1}, cache_dir=tmp_path)
    assert max(sizes) > 1


class Nothing:
    def collate(self, token_ids, lengths):
        return {}
