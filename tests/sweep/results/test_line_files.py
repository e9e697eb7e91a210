"""Files of frames and scores: every problem has its file and line, and no line is ever
quoted.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.results.score_files import read_frames, read_scores
from tests.lines import write_lines
from tests.refusals import refused
from trainables.data.bio import slots_lenient
from trainables.data.records import Frame
from trainables.errors import InvalidData

SECRET = "xylophone"


def written(path, *rows):
    write_lines(path, rows)
    return path


_TAGS = st.lists(st.sampled_from(["O", "B-contact", "B-time"]), min_size=1, max_size=6)


@settings(max_examples=25)
@given(
    utterances=st.lists(st.tuples(_TAGS, st.sampled_from(["call", "text"])), min_size=1)
)
def test_texts_tokens_tags_and_slots_in_either_form_are_the_same_frames(
    tmp_path_factory, utterances
):
    rows = {"tags": [], "lists": [], "objects": []}
    for tags, intent in utterances:
        tokens = [f"w{n}" for n in range(len(tags))]
        slots = slots_lenient(tags)
        rows["tags"].append({"tokens": tokens, "tags": tags, "intent": intent})
        rows["lists"].append(
            {"text": " ".join(tokens), "slots": slots, "intent": intent}
        )
        named = [{"slot": n, "start": a, "end": b, "value": "x"} for n, a, b in slots]
        rows["objects"].append(
            {"tokens": tokens, "slots": named, "intent": intent, "id": 3}
        )
    place = tmp_path_factory.getbasetemp() / "frames.jsonl"
    tagged, listed, named_ones = (
        read_frames(written(place, *each)) for each in rows.values()
    )
    assert tagged == listed == named_ones
    assert tagged.frames == [
        Frame(intent, slots_lenient(tags)) for tags, intent in utterances
    ]
    assert tagged.has_intents
    assert tagged.has_slots == any(set(tags) != {"O"} for tags, _ in utterances)


@pytest.mark.parametrize("read", [read_frames, read_scores])
def test_a_file_that_is_no_lines_of_objects_is_refused(tmp_path, read):
    path = tmp_path / "x.jsonl"
    for content in (b'{"text": "\xff xylophone"}\n', b"[" * 100_000):
        path.write_bytes(content)
        with refused("line 1", InvalidData, hides=SECRET):
            read(path)
