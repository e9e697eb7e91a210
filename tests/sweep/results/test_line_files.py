"""Files of frames and scores: every problem has its file and line, and no line is ever quoted."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.results.score_files import FrameFile, read_frames, read_scores, refuse_unless_aligned
from tests.lines import write_lines
from tests.refusals import refused
from trainables.data.bio import slots_lenient
from trainables.data.records import NO_INTENT, Frame
from trainables.errors import InvalidData

SECRET = "xylophone"
_GOOD = {"tokens": ["call", SECRET], "slots": [["contact", 1, 2]], "intent": "call"}


_SLOTS = "expected slots to be a list of [name, start, end], or of objects"


def written(path, *rows):
    write_lines(path, rows)
    return path


_TAGS = st.lists(st.sampled_from(["O", "B-contact", "B-time"]), min_size=1, max_size=6)


@settings(max_examples=25)
@given(utterances=st.lists(st.tuples(_TAGS, st.sampled_from(["call", "text"])), min_size=1))
def test_texts_tokens_tags_and_slots_in_either_form_are_the_same_frames(
    tmp_path_factory, utterances
):
    rows = {"tags": [], "lists": [], "objects": []}
    for tags, intent in utterances:
        tokens = [f"w{n}" for n in range(len(tags))]
        slots = slots_lenient(tags)
        rows["tags"].append({"tokens": tokens, "tags": tags, "intent": intent})
        rows["lists"].append({"text": " ".join(tokens), "slots": slots, "intent": intent})
        named = [{"slot": n, "start": a, "end": b, "value": "x"} for n, a, b in slots]
        rows["objects"].append({"tokens": tokens, "slots": named, "intent": intent, "id": 3})
    place = tmp_path_factory.getbasetemp() / "frames.jsonl"
    tagged, listed, named_ones = (read_frames(written(place, *each)) for each in rows.values())
    assert tagged == listed == named_ones
    assert tagged.frames == [Frame(intent, slots_lenient(tags)) for tags, intent in utterances]
    assert tagged.has_intents
    assert tagged.has_slots == any(set(tags) != {"O"} for tags, _ in utterances)


def test_intents_or_slots_may_be_missing_from_all_lines(tmp_path):
    path = tmp_path / "x.jsonl"
    only_slots = read_frames(written(path, {"text": "call ann", "slots": [["contact", 1, 2]]}))
    assert (only_slots.has_intents, only_slots.has_slots) == (False, True)
    assert only_slots.frames[0].intent == NO_INTENT
    only_intents = read_frames(written(path, {"text": "call ann", "intent": "call"}))
    assert (only_intents.has_intents, only_intents.has_slots) == (True, False)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tokens": "call"}, "expected tokens to be a list of words"),
        ({"tokens": [1, 2]}, "expected tokens to be a list of words"),
        ({"tokens": []}, "expected text or tokens with at least one token"),
        ({"tokens": ["call", " "]}, "expected text or tokens with at least one token"),
        ({"tokens": None, "text": ""}, "expected tokens to be a list of words"),
        ({"intent": 3}, "expected intent to be a string"),
        ({"slots": {}}, _SLOTS),
        ({"slots": [["contact", 1]]}, _SLOTS),
        ({"slots": [["contact", 1, 2.0]]}, _SLOTS),
        ({"slots": [["contact", True, 2]]}, _SLOTS),
        ({"slots": [[3, 1, 2]]}, _SLOTS),
        ({"slots": [{"slot": "contact", "start": 1}]}, _SLOTS),
        ({"slots": [["contact", 1, 1]]}, "expected 0 <= start < end <= 2 tokens in a slot"),
        ({"slots": [["contact", -1, 1]]}, "expected 0 <= start < end <= 2 tokens in a slot"),
        ({"slots": [["contact", 1, 3]]}, "tokens in a slot, got 1 and 3"),
        ({"tags": "O O"}, "expected tags to be a list of names"),
        ({"tags": ["O"]}, "expected 2 tags, one per token, got 1"),
        ({"tags": ["O", SECRET]}, "expected O, B-name or I-name"),
    ],
)
def test_each_problem_has_its_line_and_quotes_none(tmp_path, changes, problem):
    path = written(tmp_path / "x.jsonl", _GOOD, {**_GOOD, **changes}, _GOOD)
    with pytest.raises(InvalidData) as caught:
        read_frames(path)
    text = str(caught.value)
    assert f"{path} line 2" in text
    assert problem in text
    assert SECRET not in text
    assert "\n" not in text


@pytest.mark.parametrize("field", ["intent", "slots"])
def test_a_field_is_on_every_line_or_on_none(tmp_path, field):
    """A file whose second half lost a field would be scored as all wrong."""
    without = {k: v for k, v in _GOOD.items() if k != field}
    for rows in ((_GOOD, without), (without, _GOOD)):
        with refused(f"line 2: expected {field} on every line or on none", InvalidData):
            read_frames(written(tmp_path / "x.jsonl", *rows))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "expected at least one line in"),
        (b"\n\n", "expected at least one line in"),
        (b'{"text": "xylophone"\n', "expected a JSON object in .* line 1: "),
        (b'["xylophone"]\n', "expected a JSON object in .* line 1, got a list"),
        (b'{"text": "\xff xylophone"}\n', "line 1"),
        (b'{"text": "xylophone", "intent": "a", "slots": [["xylophone", 0, NaN]]}\n', "line 1"),
        (b"[" * 100_000, "line 1"),
    ],
)
def test_a_file_that_is_no_lines_of_objects_is_refused(tmp_path, content, problem):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    for read in (read_frames, read_scores):
        with refused(problem.replace("[", r"\["), InvalidData, hides=SECRET):
            read(path) if read is read_frames or b"text" not in content else read_frames(path)


def test_a_file_that_cannot_be_opened_is_the_users_problem(tmp_path):
    for path in (tmp_path / "none.jsonl", tmp_path):
        with refused(f"expected a file that can be read in {path}, got"):
            read_frames(path)


def frames(*lengths, intents=True):
    return FrameFile(
        frames=[Frame("call" if intents else NO_INTENT, ()) for _ in lengths],
        tokens=[tuple("w" * length) for length in lengths],
        annotates_slots=True,
    )


def test_files_to_compare_have_the_same_utterances():
    reference = frames(2, 3)
    refuse_unless_aligned(reference, frames(2, 3), spans=True)
    with refused(r"as many lines .* the reference \(2\), got 3"):
        refuse_unless_aligned(reference, frames(2, 3, 3), spans=False)
    with refused("expected an intent on each line of the hypothesis"):
        refuse_unless_aligned(reference, frames(2, 3, intents=False), spans=False)
    refuse_unless_aligned(frames(2, 3, intents=False), reference, spans=True)


def test_positions_are_compared_between_equal_numbers_of_tokens_alone():
    refuse_unless_aligned(frames(2, 3), frames(2, 4), spans=False)
    with refused(r"the reference's 3 tokens in utterance 2 .*, got 4 \("):
        refuse_unless_aligned(frames(2, 3), frames(2, 4), spans=True)


def test_scores_are_numbers_beside_true_or_false(tmp_path):
    rows = [{"score": 1, "member": True}, {"score": -0.5, "member": 0}, {"score": 2e9, "member": 1}]
    scores, members = read_scores(written(tmp_path / "s.jsonl", *rows))
    np.testing.assert_array_equal(scores, [1.0, -0.5, 2e9])
    np.testing.assert_array_equal(members, [True, False, True])
    assert (scores.dtype, members.dtype) == (np.float64, np.bool_)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"score": "0.5", "member": True}, "expected score to be a number"),
        ({"score": True, "member": True}, "expected score to be a number"),
        ({"member": True}, "expected score to be a number"),
        ({"score": 0.5}, "expected member to be true or false"),
        ({"score": 0.5, "member": "yes"}, "expected member to be true or false"),
        ({"score": 0.5, "member": 2}, "expected member to be true or false"),
        ({"score": math.nan, "member": True}, "expected"),
        ({"score": None, "member": True}, "expected score to be a number"),
        ({"score": 10**400, "member": True}, "expected"),
    ],
)
def test_a_wrong_score_is_named_by_its_line(tmp_path, row, problem):
    path = written(tmp_path / "s.jsonl", {"score": 0, "member": False}, row)
    with refused(f" line 2: {problem}|{problem}.* line 2: ", InvalidData):
        read_scores(path)
