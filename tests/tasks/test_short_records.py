"""What the clip norm does to the lengths of drawn texts."""

import math
import random
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from tests.lines import write_lines
from tests.tasks._pairs import prepared, tiny
from trainables.data.texts import EncodedTexts
from trainables.generation.material import UTTERANCES
from trainables.system.communication import Alone
from trainables.training import train

SHORT, SHARE = "yes", 0.2  # a record of one word, and its share of all records
PAIRS = Path("pairs")


@pytest.fixture
def place(tmp_path):
    """Records of one word among records of 36, which no model can guess."""
    draw = random.Random(0)
    folder = tmp_path / PAIRS
    folder.mkdir()
    for name, number in (("train", 300), ("test", 60)):
        texts = [
            SHORT
            if k % 5 == 0
            else " ".join(draw.choice("bcdfghjk") for _ in range(36))
            for k in range(number)
        ]
        rows = [{"utterance": text, "lispress": "(f)"} for text in texts]
        write_lines(folder / f"pairs_{name}.jsonl", rows)
    return folder


def _share_of_short(config, folder):
    """The probability that the trained model draws the short record."""
    setup = prepared(config, folder)
    train(setup, config.training, folder=None, comm=Alone(), report=lambda epoch: True)
    model = setup.model[UTTERANCES].eval()
    texts = EncodedTexts(
        [SHORT], setup.source.tokenizer, max_tokens=config.synthesis.max_tokens
    )
    return math.exp(-model.losses(texts.batch(np.array([0]))).item())


def _shares(bound, folder):
    """The probability of the short record, for each of three seeds. No noise is
    added.
    """
    changes = {
        "privacy.noise_multiplier": 0.0,
        "privacy.max_grad_norm": bound,
        "privacy.reproducible_noise": True,  # one draw of batches
        "training.epochs": 30,
        "training.expected_batch_size": 30,
        "synthesis.pretrain_epochs": 0,
    }
    return [
        _share_of_short(tiny(PAIRS, **changes, **{"training.seed": seed}), folder)
        for seed in (0, 1, 2)
    ]


@pytest.mark.slow  # six trainings, about half a minute
def test_a_bound_below_every_norm_draws_short_records_too_often(place):
    """Scaled to one norm, what a long record says of its first token weighs less than
    what a short one says. One seed alone may end near the true share, so the mean of
    three is compared.
    """
    bounded, free = (mean(_shares(bound, place.parent)) for bound in (0.01, 30.0))
    assert 0.1 < free < 0.28, (free, SHARE)
    assert bounded > max(0.3, 1.4 * free), (bounded, SHARE)
