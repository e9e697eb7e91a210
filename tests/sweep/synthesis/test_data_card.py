from pathlib import Path

from sweep.results.export_documents import SynthesisFile
from sweep.synthesis import synthesize, trained_text
from sweep.synthesis.data_card import Draws, Filters, data_card, to_markdown
from sweep.synthesis.trained_text import Trained
from trainables.config.mechanism import build_from
from trainables.config.trial import PrivacyConfig, TrainingConfig, part
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.privacy_semantics import meaning
from trainables.generation.material import PARSES, UTTERANCES
from trainables.models.configs import CausalLmConfig


def trained(*stages, noise=20.0, **fields):
    """A model folder in memory, of 100 records."""
    mechanism = build_from(
        "dp_sgd",
        PrivacyConfig(noise_multiplier=noise),
        training=TrainingConfig(epochs=1, expected_batch_size=10),
        num_records=100,
    )
    synthesis = part("synthesis", {"method": "two_stage", "parse_epochs": 1, **fields})
    about = SynthesisFile(
        stages=stages,
        synthesis=synthesis.model_dump(mode="json"),
        corpus="pair_lines",
        model={},
        frequencies={},
        mechanism={},
    )
    return Trained(Path("model"), about, CausalLmConfig(), synthesis, mechanism)


def card_of(home):
    draws = Draws(number=1, drawn=1, dropped={}, seed=0, decoding={})
    filters = Filters(min_words=1, max_words=9, patterns={}, drop_repeats=False)
    return data_card(home, draws=draws, filters=filters)


def test_the_records_that_were_declared_public_are_not_covered():
    card = card_of(trained(PARSES, UTTERANCES, public_fraction=0.2))
    [line] = [line for line in card.not_covered if "declared public" in line]
    assert "the share of 0.2 of the training part" in line
    assert line in to_markdown(card)


def test_one_trial_has_the_bounds_of_its_privacy_card():
    """Those of the whole profile; (epsilon, delta) alone allows every true-positive
    rate here.
    """
    home = trained(PARSES, UTTERANCES, noise=0.6)
    card, summary = card_of(home), account(home.mechanism)
    assert card.max_tpr_01pct == summary.max_tpr_01pct < 0.5
    assert card.max_tpr_1pct == summary.max_tpr_1pct
    assert (
        meaning(card.epsilon, delta=summary.delta).max_tpr_01pct
        > 2 * card.max_tpr_01pct
    )


def test_the_command_says_what_its_filters_dropped(monkeypatch, line):
    """A filter that rejects nearly all was to be seen in the card alone."""
    card = card_of(trained(UTTERANCES))
    drawn = card.drawn.model_copy(
        update={"drawn": 91, "dropped": {"length": 80, "email": 10}}
    )
    shown = [card, card.model_copy(update={"drawn": drawn})]
    monkeypatch.setattr(
        trained_text, "open_trained", lambda folder: trained(UTTERANCES)
    )
    monkeypatch.setattr(synthesize, "write_utterances", lambda *_, **__: shown.pop())
    command = ("synthesize", "model", "--to", "made.jsonl")
    said = " ".join(line.says(*command).split())
    assert (
        "1 utterance of 91 drawn (dropped: 80 by length, 10 by email); epsilon" in said
    )
    assert "dropped" not in line.says(*command)
