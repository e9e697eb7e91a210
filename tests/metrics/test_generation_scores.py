import json
import math
import os
import zipfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refused
from trainables.metrics import generation, text_space
from trainables.metrics.generation import Texts, distances, top_k
from trainables.models.encoders.text_states import TextStates
from trainables.parse.function_types import occurrences

DATA = Path(os.environ.get("SWEEP_DATA_DIR", "data"))
_bags = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 50), min_size=1)
_histograms = st.integers(2, 12).flatmap(
    lambda k: st.tuples(*[st.lists(st.integers(0, 30), min_size=k, max_size=k)] * 2)
)


def of_texts(generated, human):
    """MAUVE of texts on the module's own features."""
    return text_space.mauve(*text_space.features_of_both(generated, human), seed=0)


def halves(seed=0):
    """Original texts and programs of two random halves of the official validation
    file.
    """
    place = DATA / "smcalflow2" / "valid.dataflow_dialogues.jsonl.zip"
    if not place.exists():
        pytest.skip(f"smcalflow2 is not in SWEEP_DATA_DIR={DATA}")
    with zipfile.ZipFile(place) as archive, archive.open(archive.namelist()[0]) as file:
        turns = [turn for line in file for turn in json.loads(line)["turns"]]
    order = np.random.default_rng(seed).permutation(len(turns))
    for ids in (order[:7_375], order[7_375:14_750]):
        texts = [turns[i]["user_utterance"]["original_text"] for i in ids]
        yield (
            texts,
            Counter(name for i in ids for name in occurrences(turns[i]["lispress"])),
        )


def of_words(generated, human):
    """The overlap of the words of two sides."""
    return generation.overlap(*map(generation.vocabulary, (generated, human)), "word")


def test_word_overlap_keeps_case_and_punctuation():
    human = {"what is the weather", "cancel the meeting"}
    assert of_words({"what is the time", "cancel it"}, human) == pytest.approx(4 / 6)
    assert of_words({"What is, the"}, {"what is the"}) == pytest.approx(1 / 3)
    assert of_words([], human) == 0
    with refused("at least one word"):
        of_words(human, [" "])


def test_distances_of_the_worked_example():
    ours, theirs = Counter("aab"), Counter("abbc")
    chi_square, full, variation, _ = distances(ours, theirs).values()
    assert (chi_square, full, variation) == pytest.approx(
        (0.236364, 0.472727, 0.416667), abs=1e-6
    )
    with refused("in the generated programs"):
        distances({}, theirs)


@given(_bags, _bags)
def test_distances_are_symmetric_and_bounded(p, q):
    found, most = distances(p, q), np.array([1, 2, 1, math.log(2)])
    assert found == pytest.approx(distances(q, p))
    assert np.all(np.array([*found.values()]) >= -1e-12)
    assert np.all(np.array([*found.values()]) <= most + 1e-12)
    assert [*distances({"a": 3}, {"b": 1}).values()] == pytest.approx(most)
    # Twice as many of everything is the same distribution.
    for same in (p, {k: 2 * v for k, v in p.items()}):
        assert [*distances(p, same).values()] == pytest.approx([0, 0, 0, 0])


def test_top_k_breaks_ties_by_name():
    counts = {"b": 2, "a": 2, "c": 1}
    assert top_k(counts, {"a": 9, "c": 1}, k=1) == 1
    assert top_k(counts, {"b": 9, "c": 1}, k=1) == 0
    assert top_k({"a": 1}, counts, k=3) == pytest.approx(1 / 3)
    assert generation.overlap({"a", "x"}, counts.keys(), "type") == pytest.approx(1 / 3)


def test_the_published_ceilings_of_two_human_halves():
    """One split each; the tolerance is what splits differ by."""
    (texts, p), (others, q) = halves()
    assert of_words(texts, others) == pytest.approx(0.491, abs=0.015)
    assert generation.overlap(p.keys(), q.keys(), "type") == pytest.approx(
        0.926, abs=0.02
    )
    tops = [top_k(p, q, k=k) for k in generation.TOP]
    assert tops == pytest.approx([1.0, 0.96, 0.98, 0.96], abs=0.101)
    found = distances(p, q)
    assert found["chi_square"] == pytest.approx(0.0033, abs=0.0015)
    assert found["chi_square_full"] == pytest.approx(0.0065, abs=0.003)
    assert found["total_variation"] == pytest.approx(0.0262, abs=0.005)


@pytest.mark.parametrize(
    ("p", "q", "plain", "smoothed"),
    [
        ([1, 1], [1, 1], 1, 1),
        ([1, 0], [0, 1], 0.004072, 0.559611),
        ([3, 1], [1, 3], 0.559611, 0.756227),
        ([2, 1, 1], [1, 1, 2], 0.912889, 0.970463),
        ([9, 1], [1, 9], 0.082602, 0.155692),
    ],
)
def test_mauve_of_histograms(p, q, plain, smoothed):
    assert text_space.of_histograms(p, q) == pytest.approx(plain, abs=1e-6)
    assert text_space.of_histograms(p, q, smoothing=0.5) == pytest.approx(
        smoothed, abs=1e-6
    )


@given(_histograms)
def test_mauve_is_symmetric_in_range_and_1_for_equal_histograms(sides):
    p, q = ([count + 1 for count in side] for side in sides)
    assert text_space.of_histograms(p, q) == pytest.approx(
        text_space.of_histograms(q, p)
    )
    assert 0 < text_space.of_histograms(p, q) <= 1 + 1e-12
    assert text_space.of_histograms(p, p) == pytest.approx(1)


def test_mauve_distinguishes_like_from_unlike_text():
    rng = np.random.default_rng(0)
    words = [f"{a}{b}" for a in "bcdfg" for b in ("at", "et", "ing", "oo")]

    def texts(some, n=120):
        return [" ".join(rng.choice(some, size=6)) for _ in range(n)]

    like = of_texts(texts(words), texts(words))
    unlike = of_texts(texts(words[:6]), texts(words))
    assert like["mauve"] > 0.8 > 0.5 > unlike["mauve"]
    assert (like["mauve_num_texts"], like["mauve_num_clusters"]) == (120, 12)
    for same in (texts(words), ["a"] * 20):
        assert of_texts(same, same)["mauve"] == pytest.approx(1)


ONE, OTHER, THIRD = np.eye(3)


def rows(*centres, number=200):
    """Rows near each of some centres, in one law."""
    noise = np.random.default_rng(len(centres) * number).normal(
        size=(len(centres), number, 3)
    )
    return np.concatenate(np.array(centres)[:, None] + 0.05 * noise)


@pytest.mark.parametrize(
    ("generated", "human", "precision", "recall"),
    [
        # Each point lies in some ball of radius r_3 with high probability.
        (rows(ONE), rows(ONE, number=201), (0.9, 1), (0.9, 1)),
        (rows(ONE, number=400), rows(ONE, OTHER, number=201), (0.9, 1), (0.4, 0.5001)),
        (rows(THIRD), rows(ONE, number=201), (0, 0), (0, 0)),
        (np.ones((10, 3)), np.ones((10, 3)), (1, 1), (1, 1)),  # in balls of radius 0
    ],
    ids=["like human text", "one mode of two", "elsewhere", "repeated"],
)
def test_neighbours_are_plausible_and_cover(generated, human, precision, recall):
    found = text_space.neighbours(generated, human)
    assert precision[0] <= found["neighbour_precision"] <= precision[1]
    assert recall[0] <= found["neighbour_recall"] <= recall[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # whatever the package's own libraries warn of
def test_mauve_of_its_authors_agrees():
    theirs = pytest.importorskip("mauve", reason="mauve-text is not installed")
    rng = np.random.default_rng(0)
    p, q = rng.normal(size=(400, 8)), rng.normal(0.7, size=(400, 8))
    ours = text_space.mauve(p, q)["mauve"]
    found = theirs.compute_mauve(
        p_features=p, q_features=q, num_buckets=40, seed=1, verbose=False
    )
    assert found.mauve == pytest.approx(ours, abs=0.05)


@pytest.fixture(scope="module")
def states():
    return TextStates()


def test_states_of_texts_see_the_order_of_words_and_no_other_text(states):
    texts = ["move my lunch to friday", "friday to lunch my move", "", "  ", "a b"]
    rows = states(texts)
    assert rows.shape == (5, 384)
    assert np.isfinite(rows).all()
    assert np.array_equal(rows[2], rows[3])
    alone = TextStates()(texts[:1])[0]
    np.testing.assert_allclose(rows[0], alone, rtol=0, atol=1e-4)
    cosine = rows[0] @ rows[1] / np.linalg.norm(rows[0]) / np.linalg.norm(rows[1])
    assert cosine < 0.95


@pytest.mark.parametrize(
    "draw", [0, *(pytest.param(draw, marks=pytest.mark.slow) for draw in range(1, 5))]
)
def test_mauve_separates_people_shuffled_words_frequent_words_and_letters(draw, states):
    """The measure on n-grams, which sees vocabulary alone, does not."""
    n = text_space.NEEDED
    one, other = (texts[:n] for texts, _ in halves(draw))
    rng = np.random.default_rng(draw)
    words = [word for text in one for word in text.split()]
    alphabet = list("abcdefghijklmnopqrstuvwxyz")
    sides = {
        "people": one,
        "shuffled": [" ".join(rng.permutation(text.split())) for text in one],
        "frequent": [" ".join(rng.choice(words, len(t.split()))) for t in one],
        "letters": [
            " ".join("".join(rng.choice(alphabet, len(w))) for w in text.split())
            for text in one
        ],
    }
    found = {
        name: text_space.of_states(side, other, states, seed=draw)["mauve_states"]
        for name, side in sides.items()
    }
    assert found["people"] - found["shuffled"] >= 0.4
    assert found["shuffled"] - found["frequent"] >= 0.15
    assert found["frequent"] > found["letters"]
    ngrams = of_texts(one, other)["mauve"], of_texts(sides["shuffled"], other)["mauve"]
    assert ngrams[0] == pytest.approx(ngrams[1], abs=0.02)


def many(n=text_space.NEEDED):
    """Distinct requests, and an encoder of them at no cost: the lengths of words."""
    texts = [f"ask {'x' * (i % 17)} for {'y' * (i % 5)} at {i}" for i in range(n)]

    def lengths(texts):
        rows = np.zeros((len(texts), 6))
        for row, text in zip(rows, texts, strict=True):
            sizes = [len(word) for word in text.split()][:5]
            row[: len(sizes)], row[5] = sizes, 1
        return rows

    return texts, lengths


@pytest.mark.parametrize("bad", ["empty", "equal"])
def test_texts_without_content_are_far_from_people(bad):
    texts, lengths = many()
    generated = ["" if bad == "empty" else texts[0]] * len(texts)
    found = text_space.of_states(generated, texts, lengths, seed=0)
    assert found["mauve_states"] < 0.05
    same = text_space.of_states(texts, texts, lengths, seed=0)
    assert same["mauve_states"] == pytest.approx(1)


@pytest.mark.parametrize("number", [10, text_space.NEEDED - 1])
def test_fewer_texts_than_mauve_needs_give_no_figure(number):
    texts, lengths = many()
    found = generation.score(Texts(texts[:number]), Texts(texts), states=lengths)
    assert found["mauve_states"] is None
    assert found["ngram_similarity"] is not None
    beside = generation.without_records(texts[:number], texts, seed=0, states=lengths)
    assert beside["mauve_states_public_texts"] is None
    assert beside["word_type_overlap_public_texts"] > 0


def test_the_texts_at_epsilon_0():
    texts, lengths = many()
    found = generation.without_records(texts, texts, seed=0, states=lengths)
    assert found["mauve_states_public_texts"] == pytest.approx(1)
    assert found["mauve_states_random_words"] < 0.9
    assert found["word_type_overlap_public_texts"] == 1
    assert found["word_type_overlap_random_words"] < 1
    assert generation.without_records(["", " "], texts, seed=0, states=lengths) == {}


PROGRAMS = ["(Yield (f))", "(Yield (g))", "(Yield (^(T) h))", "(h)"]


def human(n=40):
    return Texts(
        [f"word{i % 7} and {i}" for i in range(n)], [PROGRAMS[i % 4] for i in range(n)]
    )


score = partial(generation.score, mauve_texts=0)


def test_human_text_has_the_best_scores():
    found = generation.score(human(), human())
    assert found["word_type_overlap"] == found["function_type_overlap"] == 1
    assert (found["chi_square"], found["ngram_similarity"]) == (
        pytest.approx(0),
        pytest.approx(1),
    )
    assert found["well_formed_rate"] == 1
    assert 0 < found["word_type_overlap_human_ceiling"] < 1
    assert set(found) >= {f"function_top{k}_human_ceiling" for k in generation.TOP}


def test_sides_are_cut_to_one_size():
    found = score(human(400), human(40))
    assert (found["num_generated"], found["num_human"], found["num_compared"]) == (
        400,
        40,
        40,
    )
    assert found["word_type_overlap"] < 1
    assert "ngram_similarity" not in found


def test_malformed_generated_programs_are_counted_and_human_ones_refused():
    texts = human()
    broken = Texts(texts.utterances, ["(Yield", *texts.programs[1:]])
    assert score(broken, texts)["well_formed_rate"] == pytest.approx(39 / 40)
    with refused("expected well-formed human programs"):
        score(texts, broken)
    nothing = score(Texts(texts.utterances, ["("] * 40), texts)
    assert (nothing["well_formed_rate"], nothing["function_type_overlap"]) == (0, 0)


def test_without_programs_only_words_are_compared():
    found = score(Texts(human().utterances), human())
    assert "word_type_overlap" in found
    assert "function_type_overlap" not in found


def without(texts, ids):
    """The same, the programs of `ids` unknown."""
    programs = [
        None if i in ids else program for i, program in enumerate(texts.programs)
    ]
    return Texts(texts.utterances, programs)


@pytest.mark.parametrize("side", ["generated", "human", "both"])
def test_unknown_programs_are_no_malformed_ones(side):
    """Known ones are compared with equally many known ones, whichever side lacks
    some.
    """
    some = without(human(), range(0, 40, 2))
    ours = some if side != "human" else human()
    theirs = some if side != "generated" else human()
    found = score(ours, theirs)
    assert (found["num_compared"], found["num_programs_compared"]) == (40, 20)
    assert found["well_formed_rate"] == 1
    assert found["word_type_overlap"] == score(human(), human())["word_type_overlap"]
    known = human().select(range(1, 40, 2))
    if side == "both":  # the same 20 records on both sides
        assert found["chi_square"] == pytest.approx(0)
        assert found["num_function_types"] == len({"Yield", "g", "h"}), known.programs
    assert found["chi_square_human_ceiling"] is not None


def test_known_programs_are_found_among_many_unknown_ones():
    many = Texts(
        [f"word {i}" for i in range(5_000)], [None] * 4_980 + [PROGRAMS[0]] * 20
    )
    found = score(human(), many)
    assert found["num_programs_compared"] == 20
    found = score(without(human(), range(10)), Texts(human().utterances))
    assert found["num_programs_compared"] == 30
