import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.metrics.nlu_scores import score
from trainables.data.bio import slots_lenient, slots_strict, tags_of
from trainables.data.records import Frame
from trainables.metrics import compare, count_frames
from trainables.metrics._counts import table


def _frame(intent, **values):
    """A frame whose slots have these values, and the tokens that hold them."""
    tokens = []
    slots = []
    for name, value in values.items():
        words = value.split()
        slots.append((name, len(tokens), len(tokens) + len(words)))
        tokens += words
    return Frame(intent, tuple(slots)), tokens or ["stop"]


TRUTH = [Frame("a", ())] * 4_000
V = {
    "V1": (
        _frame("PlayMusic", artist="taylor swift", service="spotify"),
        _frame("PlayMusic", artist="taylor swift", service="spotify"),
    ),
    "V2": (
        _frame("GetWeather", city="boston", date="tomorrow"),
        _frame("GetForecast", city="boston", date="tomorrow"),
    ),
    "V3": (
        _frame("GetWeather", city="new york", date="today"),
        _frame("GetWeather", city="york", date="today"),
    ),
    "V4": (
        _frame("BookFlight", source="boston", to="denver", date="monday"),
        _frame("BookFlight", source="boston", to="denver"),
    ),
    "V5": (_frame("Stop"), _frame("Stop", device="music")),
    "V6": (
        _frame("BookFlight", source="boston", to="denver"),
        (Frame("BookFlight", (("to", 0, 1), ("to", 1, 2))), ["boston", "denver"]),
    ),
    "V7": (_frame("Stop"), _frame("PlayMusic", artist="x", song="y")),
}
# name: counts C S D I, intent errors, SER by name, SER by edit
EXPECTED = {
    "V1": ((2, 0, 0, 0), 0, 0.0, 0.0),
    "V2": ((2, 0, 0, 0), 1, 1 / 3, 1 / 3),
    "V3": ((1, 1, 0, 0), 0, 1 / 3, 1 / 3),
    "V4": ((2, 0, 1, 0), 0, 0.25, 0.25),
    "V5": ((0, 0, 0, 1), 0, 1.0, 1.0),
    "V6": ((1, 0, 1, 1), 0, 2 / 3, 1 / 3),
    "V7": ((0, 0, 0, 2), 1, 3.0, 3.0),
}


def _score(names, *, align="name"):
    references, hypotheses = zip(*(V[name] for name in names), strict=True)
    return score(
        [frame for frame, _ in references],
        [frame for frame, _ in hypotheses],
        align=align,
        match="value",
        tokens=[tokens for _, tokens in references],
        hypothesis_tokens=[tokens for _, tokens in hypotheses],
        bootstrap_samples=50,
    )


@pytest.mark.parametrize("name", V)
def test_vectors_of_single_utterances(name):
    counts, intent_errors, by_name, by_edit = EXPECTED[name]
    scores = _score([name])
    slots = ("correct", "substituted", "deleted", "inserted")
    assert tuple(scores[f"num_slots_{what}"] for what in slots) == counts
    assert scores["num_intent_errors"] == intent_errors
    assert [scores["ser"], _score([name], align="edit")["ser"]] == pytest.approx(
        [by_name, by_edit]
    )


def test_corpus_vector_is_micro_averaged():
    scores = _score(V)
    expected = {
        "ser": 0.5,
        "icer": 2 / 7,
        "intent_accuracy": 5 / 7,
        "irer": 6 / 7,
        "frame_accuracy": 1 / 7,
        "f_ser": 9 / 19,
        "slot_precision": 8 / 13,
        "slot_recall": 8 / 11,
        "slot_f1": 2 / 3,
        "num_utterances": 7,
        "num_reference_slots": 11,
    }
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    assert _score(V, align="edit")["ser"] == pytest.approx(8 / 18)
    assert scores["ser_low"] <= 0.5 <= scores["ser_high"]


TAG = st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b"])
BOTH = st.integers(1, 6).flatmap(
    lambda n: st.tuples(*[st.lists(TAG, min_size=n, max_size=n)] * 2)
)
TAGGED = st.lists(BOTH, min_size=1, max_size=4)


@settings(max_examples=200, deadline=None)
@given(TAGGED)
@example(
    [(["B-a", "I-a", "O", "B-b"], ["O", "I-a", "O", "B-b"]), (["O", "O"], ["B-b", "O"])]
)
def test_slot_f1_agrees_with_seqeval_in_both_modes(pairs):
    from seqeval.metrics import f1_score
    from seqeval.scheme import IOB2

    truth, guess = map(list, zip(*pairs, strict=True))
    frames = (
        [Frame("x", slots_lenient(tags)) for tags in side] for side in (truth, guess)
    )
    scores = score(
        *frames, reference_tags=truth, hypothesis_tags=guess, bootstrap_samples=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns of 0/0
        lenient = f1_score(truth, guess, zero_division=0)
        strict = f1_score(truth, guess, mode="strict", scheme=IOB2, zero_division=0)
    assert scores["slot_f1"] == pytest.approx(lenient, abs=1e-12)
    assert scores["slot_f1_strict"] == pytest.approx(strict, abs=1e-12)


SLOT = st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(1, 2)).map(
    lambda s: (s[0], s[1], s[1] + s[2])
)
FRAME = st.builds(
    Frame,
    st.sampled_from(["i", "j", "never seen"]),
    st.lists(SLOT, max_size=4).map(tuple),
)
FRAMES = st.lists(st.tuples(FRAME, FRAME), min_size=1, max_size=6)
ALIGN = st.sampled_from(["name", "edit"])


@settings(max_examples=200, deadline=None)
@given(FRAMES, ALIGN, st.randoms(use_true_random=False))
def test_counts_keep_their_invariants(pairs, align, random):
    references, hypotheses = [list(side) for side in zip(*pairs, strict=True)]
    counts = count_frames(references, hypotheses, align=align)
    total = counts.total()
    assert (
        counts.correct + counts.substituted + counts.deleted == counts.reference_slots
    ).all()
    assert (
        counts.correct + counts.substituted + counts.inserted == counts.hypothesis_slots
    ).all()
    assert (table(counts) >= 0).all()
    # Exchanging the sides exchanges insertions and deletions and nothing else.
    swapped = count_frames(hypotheses, references, align=align).total()
    assert (swapped.inserted, swapped.deleted) == (total.deleted, total.inserted)
    assert (swapped.substituted, swapped.correct) == (total.substituted, total.correct)
    # The order of utterances is of no matter.
    random.shuffle(pairs)
    shuffled = count_frames(
        *[list(side) for side in zip(*pairs, strict=True)], align=align
    )
    assert (table(shuffled.total()) == table(total)).all()
    scores = score(references, hypotheses, align=align, bootstrap_samples=0)
    assert (scores["ser"] == 0) == (scores["frame_accuracy"] == 1)
    backward = score(hypotheses, references, align=align, bootstrap_samples=0)["ser"]
    forward = scores["ser"]
    harmonic = 2 * forward * backward / (forward + backward) if forward else 0.0
    assert scores["f_ser"] == pytest.approx(harmonic)


@settings(max_examples=100, deadline=None)
@given(FRAMES)
def test_edit_alignment_is_a_cheapest_path_with_most_matches(pairs):
    """Against enumeration of every alignment of the two sequences."""

    def paths(left, right):
        if not left or not right:
            yield len(left) + len(right), 0
            return
        for edits, correct in paths(left[1:], right[1:]):
            yield (edits, correct + 1) if left[0] == right[0] else (edits + 1, correct)
        for edits, correct in paths(left[1:], right):
            yield edits + 1, correct
        for edits, correct in paths(left, right[1:]):
            yield edits + 1, correct

    def in_order(slots):
        return sorted(slots, key=lambda s: (s[1], s[2], s[0]))

    for reference, hypothesis in pairs:
        counts = count_frames([reference], [hypothesis], align="edit").total()
        edits, correct = min(
            paths(in_order(reference.slots), in_order(hypothesis.slots)),
            key=lambda path: (path[0], -path[1]),
        )
        assert (counts.slot_errors, counts.correct) == (edits, correct)


@settings(deadline=None)
@given(st.lists(TAG, min_size=1, max_size=8))
def test_well_formed_tags_survive_the_round_trip(tags):
    slots = slots_lenient(tags)
    clean = tags_of(slots, len(tags))
    assert slots_lenient(clean) == slots_strict(clean) == slots


def test_value_match_ignores_case_tokens_and_places():
    reference, hypothesis = Frame("a", (("city", 0, 2),)), Frame("a", (("city", 1, 2),))
    scores = score(
        [reference],
        [hypothesis],
        match="value",
        tokens=[["New", "York"]],
        hypothesis_tokens=[["to", "new  york"]],
    )
    assert scores["ser"] == 0
    assert score([reference], [hypothesis])["ser"] == 0.5


def guesses_of(wrong):
    """What is said of `TRUTH`, wrong by the mask."""
    return [Frame("b" if bad else "a", ()) for bad in wrong]


def test_bootstrap_interval_has_the_right_width():
    """One error an utterance with probability 0.3: the interval is 2 * 1.96 sqrt(.21 /
    n) wide.

    A width of 2/3 or 3/2 of that is outside the 10 % allowed here.
    """
    rng = np.random.default_rng(0)
    n = 4_000
    wrong = rng.random(n) < 0.3
    scores = score(TRUTH, guesses_of(wrong), bootstrap_samples=4_000)
    right_width = 2 * 1.96 * np.sqrt(wrong.mean() * (1 - wrong.mean()) / n)
    assert scores["ser_high"] - scores["ser_low"] == pytest.approx(right_width, rel=0.1)


def test_no_error_or_nothing_right_among_a_hundred_utterances_is_no_proof():
    """1 - 0.025^(1 / 100) = 0.0362 of all utterances may be otherwise (Clopper &
    Pearson 1934).
    """
    right = [Frame("a", (("x", 0, 1),))] * 100 + TRUTH[:50]
    may_be = {n: 1 - 0.025 ** (1 / n) for n in (100, 150)}
    scores = score(right, right)
    assert (scores["ser"], scores["ser_low"], scores["intent_accuracy_high"]) == (
        0,
        0,
        1,
    )
    assert scores["ser_high"] == pytest.approx(may_be[150])
    assert scores["intent_accuracy_low"] == pytest.approx(1 - may_be[150])
    # Utterances without a slot say nothing of slots.
    assert scores["slot_f1_low"] == pytest.approx(1 - may_be[100])
    scores = score(right, [Frame("b", ())] * 150)
    for name, n in (
        ("intent_accuracy", 150),
        ("frame_accuracy", 150),
        ("slot_f1", 100),
    ):
        assert (scores[name], scores[f"{name}_low"]) == (0, 0)
        assert scores[f"{name}_high"] == pytest.approx(may_be[n])
    assert score(TRUTH[:20], TRUTH[:20])["slot_f1_high"] == 0


@pytest.mark.parametrize("is_right", [True, False])
def test_an_interval_stays_in_the_range_of_its_metric(is_right):
    """One utterance has most slots, and is the only one that is right, or wrong."""
    long = tuple(("x", place, place + 1) for place in range(50))
    references = [Frame("a", long)] + [Frame("a", (("x", 0, 1),))] * 9
    if is_right:
        hypotheses = references[:1] + [Frame("a", (("y", 0, 1),))] * 9
    else:
        hypotheses = [Frame("a", ()), *references[1:]]
    scores = score(references, hypotheses)
    assert 0 <= scores["slot_f1_low"] < scores["slot_f1"] < scores["slot_f1_high"] <= 1


def test_one_utterance_worse_than_the_others_does_not_widen_an_interval():
    """All are wrong, so that few errors are no reason to doubt the percentiles."""
    hypotheses = [Frame("b", (("x", 0, 1),))] + [Frame("b", ())] * 999
    scores = score([Frame("a", ())] * 1_000, hypotheses)
    assert (
        1 <= scores["ser_low"] <= scores["ser"] == 1.001 <= scores["ser_high"] < 1.005
    )


@pytest.mark.slow  # 60 draws, each with a bootstrap
@pytest.mark.parametrize(("n", "share"), [(100, 0.01), (300, 0.02), (1_000, 0.001)])
def test_intervals_cover_where_few_utterances_are_wrong_or_right(n, share):
    """In 60 draws 95 % would miss 7 or more with probability 0.03; percentiles alone
    cover 60 to 90 %. The exact interval is wider than it needs to be, so that a false
    alarm is rarer.
    """
    rng = np.random.default_rng(0)
    missed = np.zeros(2, dtype=int)
    for seed in range(60):
        few = rng.random(n) < share
        for place, (name, wrong) in enumerate((("ser", few), ("frame_accuracy", ~few))):
            scores = score(
                TRUTH[:n], guesses_of(wrong), bootstrap_samples=200, seed=seed
            )
            missed[place] += (
                not scores[f"{name}_low"] <= share <= scores[f"{name}_high"]
            )
    assert (missed < 7).all()


def test_paired_comparison_is_narrower_than_two_separate_intervals():
    rng = np.random.default_rng(0)
    hard = rng.random(2_000) < 0.3  # what is hard is hard for both
    first = hard & (rng.random(2_000) < 0.9)
    second = hard & (rng.random(2_000) < 0.95)
    counts = [
        count_frames(TRUTH[:2_000], guesses_of(wrong)) for wrong in (first, second)
    ]
    result = compare(*counts)
    expected = 100 * (first.mean() - second.mean()) / second.mean()
    assert result["delta_ser_percent"] == pytest.approx(expected)
    paired = result["delta_ser_percent_high"] - result["delta_ser_percent_low"]
    apart = 100 * 2 * 1.96 * np.sqrt(2 * (1 - second.mean()) / (second.mean() * 2_000))
    assert paired < 0.6 * apart
    assert result["delta_ser_significant"] == 1.0
    assert compare(counts[0], counts[0])["delta_ser_significant"] == 0.0


@pytest.mark.parametrize(("few", "many", "significant"), [(5, 300, 1.0), (12, 14, 0.0)])
def test_a_baseline_of_few_errors_has_an_interval(few, many, significant):
    """Some resamples of the test records have none of the baseline's errors."""
    place = np.arange(900)
    trial, baseline = (
        count_frames(TRUTH[:900], guesses_of(wrong))
        for wrong in (place >= 900 - many, place < few)
    )
    found = compare(trial, baseline)
    assert found["delta_ser_percent"] == pytest.approx(100 * (many - few) / few)
    low, high = found["delta_ser_percent_low"], found["delta_ser_percent_high"]
    assert low < found["delta_ser_percent"] < high
    assert found["delta_ser_significant"] == (low > 0) == significant


def test_a_change_from_no_error_is_unknown():
    right, wrong = (
        count_frames(TRUTH[:90], guesses_of(np.arange(90) < number))
        for number in (0, 40)
    )
    found = compare(wrong, right)
    assert all(
        np.isnan(found[f"delta_ser_percent{end}"]) for end in ("", "_low", "_high")
    )
    assert found["delta_ser_significant"] == 0.0
