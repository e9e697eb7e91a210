"""Made corpora: the same bytes for the same seed, never a text twice, and a long tail
of values.
"""

import hashlib
import itertools
import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from tests.refusals import refused
from trainables import catalogue
from trainables.config.trial import data_config
from trainables.data import synthetic
from trainables.data.bio import slots_lenient, slots_strict
from trainables.data.corpus import open_corpus
from trainables.data.storage import normalise
from trainables.data.synthetic import Domain, uniform, zipf

MADE = ("communication", "health", "video")

# SHA-256 of the first 1,000 utterances of seed 0. One that changes means that every
# corpus made before is another one: then raise made._ALGORITHM, or undo the change.
FIRST_THOUSAND = {
    "communication": "cf48b97d8eed20ba36e5dddfce4564244fb40985ba6556e9326a7fe86032c7e3",
    "health": "d0314e26f6070bb4706aafc600249060b9a352330178001e9998a948f244337f",
    "video": "bf40c632cef2942dedfceacfa7d114a14600a25e9e6cd3f77e2db10114a4cc75",
}

# A grammar of 3 * 4 = 12 texts.
TINY = Domain(
    name="tiny",
    intents={"call": "(call|ring|phone) {who}"},
    slots={"who": zipf("ann bob cid dee")},
    rules={},
    openings=zipf([""]),
    closings=zipf([""]),
)


def make(name, *, size, seed=0):
    config = data_config(name=name, num_utterances=max(size, 1_000), seed=seed)
    return list(itertools.islice(config.read(None), size))


@pytest.mark.parametrize("name", MADE)
def test_the_same_seed_makes_the_same_bytes_on_every_machine(name):
    synthetic = make(name, size=1_000)
    rows = [[u.tokens, u.tags, u.intent, u.part, u.group] for u in synthetic]
    found = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    assert found == FIRST_THOUSAND[name]


@pytest.mark.parametrize("name", MADE)
def test_another_seed_makes_another_corpus(name):
    texts = [{u.tokens for u in make(name, size=2_000, seed=seed)} for seed in (0, 1)]
    assert (
        len(texts[0] & texts[1]) < 1_000
    )  # short sentences without a name are common to both


def test_a_smaller_corpus_is_the_beginning_of_a_larger_one():
    assert make("video", size=1_500) == make("video", size=4_000)[:1_500]


def test_how_much_is_drawn_at_a_time_changes_nothing(monkeypatch):
    whole = make("communication", size=3_000)
    monkeypatch.setattr(synthetic, "_CHUNK", 700)
    assert make("communication", size=3_000) == whole


@pytest.mark.parametrize("name", MADE)
def test_texts_are_distinct_and_have_every_label_of_the_grammar_and_a_long_tail(name):
    config = data_config(name=name, num_utterances=20_000)
    schema, found = config.labels(None), make(name, size=20_000)
    assert config.pool_size() == 20_000 == len({normalise(u.tokens) for u in found})
    assert schema.public
    assert 8 <= len(schema.intents) <= 12
    assert 10 <= len(schema.slots) <= 20
    assert {u.intent for u in found} == set(schema.intents)
    assert {tag[2:] for u in found for tag in u.tags} - {""} == set(schema.slots)
    assert all(slots_lenient(u.tags) == slots_strict(u.tags) for u in found)
    pairs = [
        p for u in found for p in zip(u.tags, u.tokens, strict=True) if p[0] != "O"
    ]
    values = Counter((tag[2:], word) for tag, word in pairs)
    once = sum(count == 1 for count in values.values())
    assert once > max(
        2_000, len(values) / 2
    )  # more than half of the words are one record's alone
    assert values.most_common(1)[0][1] > 1_000


@pytest.mark.parametrize("name", MADE)
def test_a_grammar_is_whole(name):
    domain = catalogue.entry("datasets", name).domain
    sentences = Counter(sentence.intent for sentence in domain.sentences)
    assert all(count >= 12 for count in sentences.values())
    assert {slot for slot, _ in domain.occurrences} == set(domain.slots)
    rules = [
        domain.openings,
        domain.closings,
        *domain.slots.values(),
        *domain.rules.values(),
    ]
    named = {
        word for rule in rules for _, pieces in rule.composites for word in pieces[1::2]
    }
    assert named <= set(domain.rules)
    literal = json.dumps(
        [s.pieces for s in domain.sentences] + [r.alternatives for r in rules]
    )
    assert literal == literal.lower()


def test_noise_has_the_stated_rates_and_changes_nothing_else():
    config = data_config(name="health", num_utterances=6_000)
    noisy = config.model_copy(update={"spelling_noise": 0.2, "label_noise": 0.1})
    assert noisy.recipe() != config.recipe()
    draw = synthetic._Draw(config.domain, 5, np.arange(6_000, dtype=np.uint64))
    before = draw.utterances()
    found = draw.with_noise(before, spelling=0.2, labels=0.1)
    assert draw.with_noise(before, spelling=0.0, labels=0.0) == before
    both = list(zip(before, found, strict=True))
    words = [p for u, v in both for p in zip(u.tokens, v.tokens, strict=True)]
    tags = [p for u, v in both for p in zip(u.tags, v.tags, strict=True)]
    assert all(a == b for a, b in words if len(a) < 3)
    assert all(a[0] == b[0] for a, b in tags)
    # Five standard errors; letters that repeat hide a few of the exchanged ones.
    assert np.mean([a != b for a, b in words if len(a) > 2]) == pytest.approx(
        0.195, abs=0.01
    )
    assert np.mean([a != b for a, b in tags if a[0] == "B"]) == pytest.approx(
        0.1, abs=0.013
    )
    assert np.mean([u.intent != v.intent for u, v in both]) == pytest.approx(
        0.1, abs=0.02
    )


def test_ranks_are_drawn_by_zipfs_law():
    # Chi-square of 20 ranks, 100,000 draws: above 62 once in a million for the right
    # law (19 df).
    rule = zipf([str(rank) for rank in range(20)])
    draw = synthetic._Draw(TINY, 5, np.arange(100_000, dtype=np.uint64))
    counts = np.bincount(draw._choose(rule, "x", draw._rows), minlength=20)

    def distance(exponent):
        weights = np.arange(1, 21) ** -exponent
        expected = 100_000 * weights / weights.sum()
        return float(((counts - expected) ** 2 / expected).sum())

    assert distance(1.0) < 62
    assert distance(2 / 3) > 1_000
    assert distance(3 / 2) > 1_000


def test_decisions_of_different_names_and_rows_are_independent():
    # Equal alternatives, 40,000 rows: |correlation| > 0.025 once in a million (5 /
    # sqrt(n)).
    rule = uniform([str(i) for i in range(1_000)])
    draw = synthetic._Draw(TINY, 5, np.arange(40_000, dtype=np.uint64))
    one, other = (
        draw._choose(rule, path, draw._rows) for path in ("slot/a/0", "slot/b/0")
    )
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.025
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.025
    assert abs(np.corrcoef(one, one)[0, 1]) > 0.99


def test_a_grammar_that_has_not_so_many_texts_is_refused():
    assert len(list(synthetic.generate(TINY, seed=0, size=12))) == 12
    with refused("at most about 12 for tiny"):
        list(synthetic.generate(TINY, seed=0, size=13))


def test_an_opened_corpus_has_the_requested_size(tmp_path):
    config = data_config(name="health", num_utterances=2_000)
    corpus = open_corpus(
        config, data_dir=tmp_path / "no data", cache_dir=tmp_path / "cache"
    )
    assert (corpus.num_records, corpus.num_duplicates) == (2_000, 0)
    assert corpus.undeclared == ()
    assert not corpus.outside.any()
    assert Counter(corpus.groups.tolist()).most_common(1)[0][1] <= 25
    expected = make("health", size=2_000)
    ids = np.array([0, 7, 1_999])
    assert corpus.token_sequences(ids) == [expected[i].tokens for i in ids]
    assert corpus.tag_sequences(ids) == [expected[i].tags for i in ids]


def test_every_seed_size_and_grammar_has_a_cache_of_its_own():
    configs = [
        data_config(name="video", seed=s, num_utterances=n)
        for s, n in ((0, 1_000), (1, 1_000), (0, 2_000))
    ]
    configs.append(data_config(name="health", num_utterances=1_000))
    assert len({config.recipe() for config in configs}) == 4
    assert configs[0].recipe() == configs[0].model_copy().recipe()


MEASURE = """
import resource, sys
from trainables.data import synthetic
from trainables.data.datasets.communication import DOMAIN
peaks = []
for number, _ in enumerate(synthetic.generate(DOMAIN, seed=0, size=int(sys.argv[1])), start=1):
    if number in (40_000, int(sys.argv[1])):
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
print(peaks[-1] - peaks[0])
"""


@pytest.mark.parametrize(
    "size", [120_000, pytest.param(1_000_000, marks=pytest.mark.slow)]
)
def test_making_takes_constant_memory(size):
    command = [sys.executable, "-c", MEASURE, str(size)]
    growth = int(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    # 8 bytes of hash an utterance, sorted anew by the chunk: three copies at the peak.
    assert growth <= 16 + 3 * 8 * size / 2**20
