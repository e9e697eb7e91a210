"""Parts of label names, and allowed transitions of tags."""

from __future__ import annotations

import numpy as np

from trainables.data.records import LabelSchema
from trainables.models._features import tag_parts
from trainables.models._nlu import bio_scores

SCHEMA = LabelSchema(intents=("a",), slots=("to.city", "from.city", "airline"), source="doc")


def test_rows_have_norm_one_and_tags_stay_apart() -> None:
    for factored in (False, True):
        parts = tag_parts(SCHEMA, factored=factored)
        np.testing.assert_allclose(np.linalg.norm(parts, axis=1), 1.0, rtol=1e-6)
        assert np.linalg.matrix_rank(parts) == len(SCHEMA.tags)


def test_tags_that_share_parts_share_weights() -> None:
    parts = tag_parts(SCHEMA, factored=True)
    alike = parts @ parts.T
    place = {tag: k for k, tag in enumerate(SCHEMA.tags)}
    same_type = alike[place["B-to.city"], place["B-from.city"]]
    same_mark = alike[place["B-to.city"], place["B-airline"]]
    assert same_type > same_mark > 0
    assert alike[place["O"], 1:].max() == 0


def test_only_bio_is_allowed() -> None:
    start, transitions = bio_scores(SCHEMA)
    for k, tag in enumerate(SCHEMA.tags):
        assert (start[k] == 0) == (tag[0] != "I")
        for m, after in enumerate(SCHEMA.tags):
            goes_on = tag != "O" and tag[2:] == after[2:]
            assert (transitions[k, m] == 0) == (after[0] != "I" or goes_on)
