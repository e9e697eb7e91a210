"""Keys of texts: functions of the text alone, different for different texts."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models._builds import SCHEMA, build_model
from tests.models._texts import PROMPTS, TEXTS, Letters, small_lm
from trainables.data.batches import Loader, text_keys, token_numbers
from trainables.data.texts import EncodedTexts
from trainables.saved import columns_of, unlabelled

texts = st.lists(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=4), min_size=1, max_size=9
)


def keys(of):
    numbers = token_numbers(token for text in of for token in text)
    return text_keys(numbers, np.array([len(text) for text in of])).tolist()


@given(texts)
def test_a_key_is_of_its_own_text(of):
    """Equal where the text is, whatever stands around it; else unlike: order and length
    count.
    """
    assert keys(of) == [keys([text])[0] for text in of]
    assert len(set(keys(of))) == len({tuple(text) for text in of})


@given(texts, st.lists(st.sampled_from("abcxyz"), min_size=1, max_size=4))
@settings(max_examples=15, deadline=None)
def test_a_record_more_changes_no_other_records_dropout(of, more):
    """It is put before all others, so that every one of them has another number than it
    had.
    """
    model = build_model("clc", dropout=0.5).train()
    model.begin_step(0, 1)
    found = []
    for shift, records in ((0, of), (1, [more, *of])):
        corpus = columns_of([unlabelled(text) for text in records], schema=SCHEMA)
        loader = Loader(corpus, model.feature_table(corpus.types))
        found.append(model.losses(loader.batch(np.arange(len(of)) + shift)).detach())
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-5)


def test_a_text_more_changes_no_other_texts_dropout():
    model = small_lm(dropout=0.5).train()
    model.begin_step(0, 1)
    found = []
    for shift in (0, 1):
        own = EncodedTexts(
            (*["new"] * shift, *TEXTS),
            Letters(),
            max_tokens=40,
            prompts=("p",) * shift + PROMPTS,
        )
        found.append(model.losses(own.batch(np.arange(len(TEXTS)) + shift)).detach())
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-5)
